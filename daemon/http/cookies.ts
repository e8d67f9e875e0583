/**
 * The cookie of a page: what it allows, signed, so that it outlives the daemon without being kept anywhere. Its name holds the
 * port, because browsers share cookies between all ports of a host.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { NotebookId } from '../../protocol/ids.ts'
import { lazily } from '../../protocol/lazily.ts'
import { Scope } from '../../protocol/scopes.ts'
import type { Access } from './access.ts'

/** How long a page may come back without a new ticket. */
export const COOKIE_MS = 7 * 86_400_000
/** Rooms that one cookie names: a browser keeps at most 4 KiB of it. */
const MAX_ROOMS = 32

const Content = lazily(() =>
  z.object({
    scope: Scope,
    rooms: z.array(NotebookId).max(MAX_ROOMS).nullable(),
    until: z.number(),
  }),
)

export class Cookies {
  readonly #name: string
  readonly #key: Buffer

  constructor(port: number, key: Buffer) {
    this.#name = `roomd-${port}`
    this.#key = key
  }

  /** What the request's cookie allows; null: there is none, it is not ours, or it has expired. */
  read(header: string | undefined, now: number): Access | null {
    for (const pair of header?.split(';') ?? []) {
      const at = pair.indexOf('=')
      if (at < 0 || pair.slice(0, at).trim() !== this.#name) continue
      const access = this.#open(pair.slice(at + 1).trim(), now)
      if (access) return access
    }
    return null
  }

  /**
   * The `Set-Cookie` value for a page. `before`: what its browser's cookie allows already; rooms of the same scope are added to
   * those, so that a second page does not shut out the first.
   */
  write(access: Access, before: Access | null, now: number): string {
    const { scope } = access
    const same = before?.scope === scope ? before : null
    const rooms =
      access.rooms === null || same?.rooms === null
        ? null
        : [...new Set([...(same?.rooms ?? []), ...access.rooms])].slice(-MAX_ROOMS)
    const content = JSON.stringify({ scope, rooms, until: now + COOKIE_MS })
    const body = Buffer.from(content).toString('base64url')
    const value = `${body}.${this.#sign(body).toString('base64url')}`
    return `${this.#name}=${value}; Path=/; Max-Age=${COOKIE_MS / 1000}; HttpOnly; SameSite=Strict`
  }

  #open(value: string, now: number): Access | null {
    const [body, mac] = value.split('.')
    if (body === undefined || mac === undefined) return null
    const given = Buffer.from(mac, 'base64url')
    const ours = this.#sign(body)
    if (given.length !== ours.length || !timingSafeEqual(given, ours)) return null
    const content = Content.parse(JSON.parse(Buffer.from(body, 'base64url').toString('utf8')))
    if (content.until <= now) return null
    return {
      scope: content.scope,
      rooms: content.rooms === null ? null : new Set(content.rooms),
      tokenId: null,
      expiresAt: content.until,
    }
  }

  #sign(body: string): Buffer {
    return createHmac('sha256', this.#key).update(body).digest()
  }
}
