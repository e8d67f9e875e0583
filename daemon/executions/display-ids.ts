/** In which executions of a kernel each display id was shown. The oldest ids are forgotten: the store finds them again. */
import type { ExecutionId, KernelId } from '../../protocol/ids.ts'
import type { RecordBook } from './book.ts'

/** Display ids whose outputs are known without asking the store. */
const KNOWN = 10_000

export class DisplayIds {
  readonly #book: RecordBook
  readonly #executions = new Map<string, Set<ExecutionId>>()

  constructor(book: RecordBook) {
    this.#book = book
  }

  /** The executions that may show the id; the caller removes those that do not. */
  executions(displayId: string, kernel: KernelId): Set<ExecutionId> {
    const known = this.#executions.get(displayId)
    if (known) return known
    // Shown before this process began, or never.
    const ids = new Set(this.#book.searchDisplay(kernel, displayId))
    for (const live of this.#book.open) ids.add(live.id)
    this.#remember(displayId, ids)
    return ids
  }

  shown(displayId: string, by: ExecutionId): void {
    const known = this.#executions.get(displayId)
    if (known) known.add(by)
    else this.#remember(displayId, new Set([by]))
  }

  /** Ids of a kernel that is gone mean nothing to the next. */
  forget(): void {
    this.#executions.clear()
  }

  #remember(displayId: string, ids: Set<ExecutionId>): void {
    this.#executions.set(displayId, ids)
    for (const oldest of this.#executions.keys()) {
      if (this.#executions.size <= KNOWN) break
      this.#executions.delete(oldest)
    }
  }
}
