/**
 * One request (or OPEN) that is not answered yet, as rooms see it. The AbortController is made when somebody asks for the signal:
 * most requests are answered in the turn they came in and never need one.
 */
import type { Request } from '../../protocol/channels.ts'
import type { RoomdError } from '../../protocol/errors.ts'
import type { MutationId } from '../../protocol/ids.ts'
import type { PeerIdentity, RequestContext } from '../rooms/seam.ts'

export class OpenRequest implements RequestContext {
  readonly identity: PeerIdentity
  readonly mutationId?: MutationId
  readonly watermark?: number
  readonly expect?: NonNullable<RequestContext['expect']>
  /** Set when a RESPONSE was sent, or can no longer be. */
  answered = false
  #controller: AbortController | null = null
  #reason: RoomdError | null = null
  #stopDeadline: (() => void) | null = null

  constructor(identity: PeerIdentity, request: Pick<Request, 'mutation_id' | 'watermark' | 'expect'> = {}) {
    this.identity = identity
    if (request.mutation_id !== undefined) this.mutationId = request.mutation_id
    if (request.watermark !== undefined) this.watermark = request.watermark
    if (request.expect !== undefined) this.expect = request.expect as NonNullable<RequestContext['expect']>
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** Why it was aborted, null while it was not. */
  get aborted(): RoomdError | null {
    return this.#reason
  }

  /** Takes over a running deadline: `stop` is called when the request is over. */
  set deadline(stop: () => void) {
    this.#stopDeadline = stop
  }

  /** The first reason stands. */
  abort(reason: RoomdError): void {
    if (this.#reason) return
    this.#reason = reason
    this.#controller?.abort(reason)
  }

  /** Marks it as answered and stops its deadline. false: it was before. */
  finish(): boolean {
    if (this.answered) return false
    this.answered = true
    this.#stopDeadline?.()
    this.#stopDeadline = null
    return true
  }
}
