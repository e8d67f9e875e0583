/**
 * The tokens of the HTTP listener. Three kinds:
 *   - the owner's, one a home, in the file `<state>/token` (0600): whoever may read it is the user;
 *   - named ones, made with `create_token`, of which `<state>/tokens.json` keeps a digest and what they allow;
 *   - tickets for one use within two minutes, in memory only: a page or a browser's WebSocket exchanges one for a cookie.
 * Secrets are 256 random bits. They are compared by their digests in constant time, all candidates each time.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import type { Clock } from '../../protocol/clock.ts'
import { parseOutside, RoomdError } from '../../protocol/errors.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { lazily } from '../../protocol/lazily.ts'
import type { MethodArguments, MethodResult, TokenSummary } from '../../protocol/methods.ts'
import { Scope } from '../../protocol/scopes.ts'
import { replaceFile } from '../../protocol/small-files.ts'
import type { Access } from './access.ts'
import { readPrivateFile } from './private-file.ts'

/** A ticket is used within this time or never. */
export const TICKET_MS = 120_000
/** Tickets that wait to be used; the oldest go first. */
const MAX_TICKETS = 1_000
/** Named tokens of a home. */
const MAX_TOKENS = 1_000
const OWNER_TOKEN = /^roomd_[A-Za-z0-9_-]{43}$/

const StoredToken = lazily(() =>
  z.object({
    token_id: z.string(),
    digest: z.string().regex(/^[0-9a-f]{64}$/),
    label: z.string(),
    scope: Scope,
    notebook_id: NotebookId.nullable(),
    created_at: z.number(),
    expires_at: z.number().nullable(),
  }),
)
type StoredToken = z.output<typeof StoredToken>
const StoredTokens = lazily(() => z.object({ tokens: z.array(StoredToken) }))

interface Ticket {
  readonly digest: Buffer
  readonly access: Access
  readonly until: number
}

export class Tokens {
  readonly #clock: Clock
  readonly #file: string
  readonly #owner: string
  #named: StoredToken[]
  #tickets: Ticket[] = []
  /** Told when a named token ends: connections that were made with it end too. */
  ended: (tokenId: string) => void = () => {}

  /** Reads the home's tokens, and makes the owner's when there is none. Throws `forbidden` for files that are not ours alone. */
  constructor(stateFolder: string, clock: Clock) {
    this.#clock = clock
    this.#file = join(stateFolder, 'tokens.json')
    this.#owner = ownerToken(join(stateFolder, 'token'))
    const stored = readPrivateFile(this.#file)
    this.#named =
      stored === null ? [] : parseOutside(StoredTokens, JSON.parse(stored) as unknown, this.#file).tokens
  }

  /** What a long-lived token allows; null: it is none of ours, or has expired. */
  find(token: string): Access | null {
    const digest = digestOf(token)
    const isOwner = timingSafeEqual(digest, digestOf(this.#owner))
    let found: StoredToken | null = null
    for (const named of this.#named) {
      if (timingSafeEqual(digest, Buffer.from(named.digest, 'hex'))) found = named
    }
    if (isOwner) return { scope: 'owner', rooms: null, tokenId: null, expiresAt: null }
    if (found === null || (found.expires_at !== null && found.expires_at <= this.#clock.now())) return null
    return accessOf(found)
  }

  /** Whether a named token, by its id, still holds. */
  holds(tokenId: string): boolean {
    return this.#named.some(
      (named) =>
        named.token_id === tokenId && (named.expires_at === null || named.expires_at > this.#clock.now()),
    )
  }

  /** Uses a ticket up; null: it is none, was used, or is too old. */
  redeem(ticket: string): Access | null {
    const now = this.#clock.now()
    const digest = digestOf(ticket)
    let found: Ticket | null = null
    for (const one of this.#tickets) if (timingSafeEqual(digest, one.digest)) found = one
    this.#tickets = this.#tickets.filter((one) => one !== found && one.until > now)
    return found !== null && found.until > now ? found.access : null
  }

  create(asked: MethodArguments<'create_token'>): Omit<MethodResult<'create_token'>, 'http'> {
    const now = this.#clock.now()
    const notebookId = asked.notebook_id ?? null
    if (asked.once) {
      const token = `once_${secret()}`
      const access: Access = {
        scope: asked.scope,
        rooms: notebookId === null ? null : new Set([notebookId]),
        tokenId: null,
        expiresAt: null,
      }
      const until = now + TICKET_MS
      this.#tickets = [
        ...this.#tickets.filter((one) => one.until > now).slice(1 - MAX_TICKETS),
        { digest: digestOf(token), access, until },
      ]
      return { token, token_id: null, expires_at: until }
    }
    const living = this.#named.filter(({ expires_at }) => expires_at === null || expires_at > now)
    if (living.length >= MAX_TOKENS) {
      throw new RoomdError(
        'overloaded',
        `there are ${MAX_TOKENS} tokens already; revoke some with "roomd token revoke"`,
        { retryable: false },
      )
    }
    const token = `roomd_${secret()}`
    const stored: StoredToken = {
      token_id: randomBytes(6).toString('hex'),
      digest: digestOf(token).toString('hex'),
      label: asked.label ?? '',
      scope: asked.scope,
      notebook_id: notebookId,
      created_at: now,
      expires_at: asked.ttl_s === undefined ? null : now + asked.ttl_s * 1000,
    }
    this.#keep([...living, stored])
    return { token, token_id: stored.token_id, expires_at: stored.expires_at }
  }

  list(): TokenSummary[] {
    const now = this.#clock.now()
    return this.#named
      .filter(({ expires_at }) => expires_at === null || expires_at > now)
      .map(({ digest: _, ...summary }) => summary)
  }

  revoke(tokenId: string): TokenSummary {
    const found = this.#named.find((named) => named.token_id === tokenId)
    if (!found) {
      throw new RoomdError('not_found', `no token has the id ${tokenId}; "roomd token list" shows them`)
    }
    this.#keep(this.#named.filter((named) => named !== found))
    this.ended(tokenId)
    const { digest: _, ...summary } = found
    return summary
  }

  /** The key that signs cookies: a new owner's token makes all of them void. */
  cookieKey(): Buffer {
    return createHmac('sha256', this.#owner).update('roomd cookies 1').digest()
  }

  #keep(tokens: StoredToken[]): void {
    try {
      replaceFile(this.#file, `${JSON.stringify({ tokens }, null, 2)}\n`, { outlives: 'machine' })
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const full = code === 'ENOSPC' || code === 'EDQUOT'
      throw new RoomdError(
        full ? 'storage_full' : 'storage_failed',
        `the tokens could not be written to ${this.#file}: ${message}; nothing was changed`,
      )
    }
    this.#named = tokens
  }
}

/** The owner's token: read, or made when there is none. */
function ownerToken(file: string): string {
  const present = readPrivateFile(file)?.trim()
  if (present !== undefined) {
    if (OWNER_TOKEN.test(present)) return present
    throw new RoomdError('forbidden', `${file} holds no token of ours; remove it and restart the daemon`)
  }
  const token = `roomd_${secret()}`
  replaceFile(file, `${token}\n`, { outlives: 'machine' })
  return token
}

function accessOf({ scope, notebook_id, token_id, expires_at }: StoredToken): Access {
  return {
    scope,
    rooms: notebook_id === null ? null : new Set([notebook_id]),
    tokenId: token_id,
    expiresAt: expires_at,
  }
}

const secret = (): string => randomBytes(32).toString('base64url')
const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest()
