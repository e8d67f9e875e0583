/**
 * Writing to the client, and the requests that the proxy is answering itself: those of its own tools, and results that wait to say
 * how a rejoin went. Owns that a cancelled request gets no answer.
 */
import { type JsonObject, type Message, type Outcome, type RequestId, RpcCode } from './jsonrpc.ts'

export interface ClientAnswersOptions {
  readonly write: (message: Message) => void
  readonly log: (text: string) => void
  /** A request is off the list. */
  readonly less: () => void
}

export class ClientAnswers {
  readonly #options: ClientAnswersOptions
  /** false: cancelled. */
  readonly #underWay = new Map<RequestId, boolean>()

  constructor(options: ClientAnswersOptions) {
    this.#options = options
  }

  get count(): number {
    return this.#underWay.size
  }

  has(id: RequestId): boolean {
    return this.#underWay.has(id)
  }

  /** The proxy answers this request, later, with `finish`. */
  begin(id: RequestId): void {
    this.#underWay.set(id, true)
  }

  /** Nobody waits for the answer any more. */
  cancel(id: RequestId): void {
    if (this.#underWay.has(id)) this.#underWay.set(id, false)
  }

  /** Whether somebody still waits for the answer of a request that was begun. */
  wanted(id: RequestId): boolean {
    return this.#underWay.get(id) === true
  }

  /** The answer of a request that was begun; written unless it was cancelled. */
  finish(id: RequestId, outcome: Outcome): void {
    const wanted = this.wanted(id)
    this.#underWay.delete(id)
    if (wanted) this.answer(id, outcome)
    this.#options.less()
  }

  answer(id: RequestId, outcome: Outcome): void {
    this.write({ kind: 'response', id, outcome })
  }

  result(id: RequestId, result: JsonObject): void {
    this.answer(id, { result })
  }

  /** An error of the protocol itself. What names no request is only logged: no client could tell what the answer is to. */
  refuse(id: RequestId | null, code: number, message: string): void {
    if (id !== null) this.answer(id, { error: { code, message } })
    else this.#options.log(`the client sent what is no message: ${message}`)
  }

  /** A defect of ours while a request was handled. */
  failed(id: RequestId, error: Error): void {
    this.refuse(id, RpcCode.internal, error.message)
  }

  notify(method: string): void {
    this.write({ kind: 'notification', method, params: undefined })
  }

  write(message: Message): void {
    this.#options.write(message)
  }
}
