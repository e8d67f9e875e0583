/**
 * Who is let in: Host and Origin first (403), then a valid token (401), then its scope (403, the routes' own check). A token is
 * `Authorization: Bearer`, or for a page and a browser's WebSocket a ticket in the query of the first request, which is
 * exchanged for a cookie, and the cookie after that.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { Access } from './access.ts'
import type { Cookies } from './cookies.ts'
import type { Origins } from './origin.ts'
import { Refusal } from './refusal.ts'
import type { Tokens } from './tokens.ts'

export interface Admitted {
  readonly access: Access
  /** `Set-Cookie` for the answer, when a ticket was exchanged. */
  readonly setCookie: string | null
}

export interface AdmissionOptions {
  readonly tokens: Tokens
  readonly cookies: Cookies
  readonly origins: Origins
  readonly clock: Clock
}

export class Admission {
  readonly #options: AdmissionOptions

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** `page`: a page, or a WebSocket, which may bring a ticket. Throws Refusal. */
  admit(request: IncomingMessage, query: URLSearchParams, page: 'page' | 'socket' | 'other'): Admitted {
    const { tokens, cookies, origins, clock } = this.#options
    const { headers } = request
    const fault = origins.fault(headers, page === 'page')
    if (fault) throw new Refusal(403, new RoomdError('forbidden', fault))
    const { authorization } = headers
    if (authorization !== undefined) {
      const token = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
      const access = token === undefined ? null : tokens.find(token)
      if (!access) throw unauthorized('the token in the Authorization header is not valid')
      return { access, setCookie: null }
    }
    const now = clock.now()
    const known = cookies.read(headers.cookie, now)
    const ticket = page === 'other' ? null : query.get('token')
    if (ticket !== null) {
      const access = tokens.redeem(ticket)
      if (access) return { access, setCookie: cookies.write(access, known, now) }
      // A page that is loaded again still has the ticket in its address.
      if (!known) throw unauthorized('the token was used before, is too old, or never was one')
    }
    if (!known) throw unauthorized('a token is needed')
    return { access: known, setCookie: null }
  }
}

function unauthorized(why: string): Refusal {
  return new Refusal(
    401,
    new RoomdError(
      'unauthorized',
      `${why}; open the console with "roomd open", or send "Authorization: Bearer" with a token of "roomd token create"`,
    ),
  )
}
