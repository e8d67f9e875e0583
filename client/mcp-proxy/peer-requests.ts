/**
 * Requests of a child to the client (elicitation, roots, sampling): ids and progress tokens of children start again with every
 * child, so each gets one of the proxy's. A child that ends leaves nobody to answer to: the client is told by a cancellation.
 */
import {
  isObject,
  type JsonObject,
  type Message,
  type Notification,
  type Request,
  type RequestId,
  type Response,
} from './jsonrpc.ts'

interface Asked {
  readonly childId: RequestId
  readonly childToken: RequestId | null
  readonly generation: number
}

export class PeerRequests {
  readonly #asked = new Map<string, Asked>()
  #ids = 0

  /** The request as the client gets it. */
  ask(request: Request, generation: number): Request {
    const id = `child-${++this.#ids}`
    const meta = isObject(request.params?._meta) ? request.params._meta : null
    const token = meta?.progressToken
    const childToken = typeof token === 'string' || typeof token === 'number' ? token : null
    this.#asked.set(id, { childId: request.id, childToken, generation })
    if (childToken === null) return { ...request, id }
    return { ...request, id, params: { ...request.params, _meta: { ...meta, progressToken: id } } }
  }

  /** The client's answer as the child gets it; null when nobody waits for it any more. */
  answer(response: Response, generation: number | null): Response | null {
    const asked = this.#take(response.id)
    return asked === null || asked.generation !== generation ? null : { ...response, id: asked.childId }
  }

  /** The client's progress on a request of the child, as the child gets it. */
  progress(notification: Notification, generation: number | null): Notification | null {
    const token = notification.params?.progressToken
    const asked = typeof token === 'string' ? this.#asked.get(token) : undefined
    if (asked === undefined || asked.generation !== generation || asked.childToken === null) return null
    return { ...notification, params: { ...notification.params, progressToken: asked.childToken } }
  }

  /** A child's cancellation of its own request, as the client gets it; null when it is answered already. */
  cancel(params: JsonObject, generation: number): Notification | null {
    for (const [id, asked] of this.#asked) {
      if (asked.generation !== generation || asked.childId !== params.requestId) continue
      this.#asked.delete(id)
      return { kind: 'notification', method: 'notifications/cancelled', params: { ...params, requestId: id } }
    }
    return null
  }

  /** Cancellations for everything that this child asked and has no answer to. */
  childGone(generation: number): Message[] {
    const cancellations: Message[] = []
    for (const [id, asked] of this.#asked) {
      if (asked.generation !== generation) continue
      this.#asked.delete(id)
      cancellations.push({
        kind: 'notification',
        method: 'notifications/cancelled',
        params: { requestId: id, reason: 'the MCP child that asked has ended' },
      })
    }
    return cancellations
  }

  #take(id: RequestId): Asked | null {
    if (typeof id !== 'string') return null
    const asked = this.#asked.get(id)
    this.#asked.delete(id)
    return asked ?? null
  }
}
