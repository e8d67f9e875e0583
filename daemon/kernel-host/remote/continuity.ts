/**
 * Whether something is missing between two messages of a kernel. Kernels that speak through jupyter_client number their messages
 * (`msg_id` is `<session>_<pid>_<number>`, one count for all channels), so after a connection that was lost, or output that the
 * gateway says it dropped, the numbers prove that all is there, or how much is not. Where a kernel does not number, something may
 * be missing, and that is what is said.
 *
 * Only iopub is followed: its order is the kernel's, while a reply may overtake it. Numbers seen on other channels are no holes;
 * answers to somebody else's questions are counted as holes, so that the figure is an upper bound.
 */

/** How many numbers of other channels are remembered. */
const ELSEWHERE = 1_000

export class Continuity {
  /** Newest number on iopub, and what its message id begins with. */
  #last: { readonly prefix: string; readonly number: number } | null = null
  readonly #elsewhere = new Set<string>()
  #suspicion: string | null = null

  /** Something may be missing before the next message, for this reason. The first reason stands until it is settled. */
  suspect(reason: string): void {
    this.#suspicion ??= reason
  }

  /** A message of the kernel's own. What is missing before it, in words, or null. */
  note(channel: string, msgId: string): string | null {
    const numbered = /^(.+)_(\d+)$/.exec(msgId)
    if (channel !== 'iopub') {
      this.#elsewhere.add(msgId)
      if (this.#elsewhere.size > ELSEWHERE)
        for (const oldest of this.#elsewhere) {
          this.#elsewhere.delete(oldest)
          break
        }
      return null
    }
    const before = this.#last
    const now = numbered === null ? null : { prefix: numbered[1] ?? '', number: Number(numbered[2]) }
    this.#last = now
    const reason = this.#suspicion
    if (reason === null) return null
    this.#suspicion = null
    if (now === null || before === null || now.prefix !== before.prefix || now.number <= before.number)
      return `${reason}; what the kernel printed there may be missing`
    let missing = 0
    for (let number = before.number + 1; number < now.number; number++)
      if (!this.#elsewhere.has(`${now.prefix}_${number}`)) missing++
    return missing === 0 ? null : `${reason}; up to ${missing} messages of the kernel are missing`
  }

  /** What may be missing at the end, when no message will come any more. */
  end(): string | null {
    const reason = this.#suspicion
    this.#suspicion = null
    return reason === null ? null : `${reason}; what the kernel printed there may be missing`
  }
}
