/**
 * Whether the kernel behind an id is still the one that was started. Jupyter servers start a kernel that died anew under its old
 * id, and anybody may restart it: the variables are gone, and taking the new process for the old one would be a lie.
 *
 * Three signs: the server says so (`status: restarting` or `dead`, a message of its own, which carries our session id); the kernel's
 * own session id, which is its process's, is another; for kernels that have none and use that of whom they answer (IRkernel), a
 * count of executions that is lower than one seen before.
 */
import type { Channel } from '../connection-file.ts'
import { dictionary, type RawMessage } from '../jupyter-message.ts'

export class Incarnation {
  readonly #ours: string
  #session: string | null
  #count = 0

  /** `session`: the kernel's own, if it is known from before. */
  constructor(ours: string, session: string | null) {
    this.#ours = ours
    this.#session = session
  }

  get session(): string | null {
    return this.#session
  }

  /** Whether the kernel wrote it, as far as one can tell: the server's own messages carry our session id. */
  isKernels(raw: RawMessage): boolean {
    return raw.session !== null && (raw.session !== this.#ours || this.#session === null)
  }

  /** Why the kernel is another one or none, or null. `probe`: the message answers a silent execute of ours. */
  note(channel: Channel, raw: RawMessage, probe: boolean): string | null {
    if (
      channel === 'iopub' &&
      raw.msgType === 'status' &&
      raw.session === this.#ours &&
      raw.parentId === null
    ) {
      const state = dictionary(raw.rawContent).execution_state
      if (state === 'restarting') return 'the kernel died; its server started it anew, without its variables'
      if (state === 'dead') return 'the kernel died and its server could not start it again'
    }
    // What answers others may carry their session, so only an answer to us shows whether the kernel has one of its own.
    const own = raw.session !== this.#ours && raw.session !== raw.parentSession ? raw.session : null
    if (own !== null && this.#session !== null && own !== this.#session)
      return 'the kernel was started anew at its server, without its variables'
    if (own !== null && raw.parentSession === this.#ours) this.#session = own
    if (this.#session === null && channel === 'shell' && raw.msgType === 'execute_reply') {
      const count = dictionary(raw.rawContent).execution_count
      if (typeof count !== 'number') return null
      if (probe && count < this.#count)
        return 'the kernel was started anew at its server, without its variables'
      if (!probe) this.#count = count
    }
    return null
  }
}
