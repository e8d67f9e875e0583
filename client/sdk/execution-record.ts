/**
 * One execution as this client knows it: summary and outputs, changed by events in their order. Whoever follows a run subscribes
 * and is told each change of the outputs in terms of positions, so that nothing is shown twice.
 *
 * An output is never changed in place: what was handed out stays as it was.
 */
import type { ExecutionId } from '../../protocol/ids.ts'
import { type Execution, type ExecutionSummary, isTerminal, type Output } from '../../protocol/notebook.ts'
import { charsOf, commonStart, fold, spliceText } from './long-text.ts'

export type RecordChange =
  | { readonly kind: 'summary' }
  /** Output `index` is new, or another than before. */
  | { readonly kind: 'output'; readonly index: number }
  /** Stream output `index` was cut to `from` and went on from there. */
  | { readonly kind: 'spliced'; readonly index: number; readonly from: number }
  | { readonly kind: 'cleared' }
  /** What became of it cannot be found out any more. */
  | { readonly kind: 'failed' }

export class ExecutionRecord {
  readonly #listeners = new Set<(change: RecordChange) => void>()
  #summary: ExecutionSummary
  #outputs: Output[] = []
  /** What was handed out of `#outputs` as it is now. */
  #shown: readonly Output[] | null = null
  #error: Error | null = null
  /** Rises with every change. */
  version = 0
  /** false: a text was cut where it is not kept; its size is a lower bound until the outputs are fetched again. */
  exact = true

  constructor(summary: ExecutionSummary) {
    this.#summary = summary
  }

  get id(): ExecutionId {
    return this.#summary.execution_id
  }

  get summary(): ExecutionSummary {
    return this.#summary
  }

  get terminal(): boolean {
    return isTerminal(this.#summary.status)
  }

  /** Outputs as they are now; the array never changes afterwards. */
  get outputs(): readonly Output[] {
    this.#shown ??= [...this.#outputs]
    return this.#shown
  }

  output(index: number): Output | undefined {
    return this.#outputs[index]
  }

  get outputCount(): number {
    return this.#outputs.length
  }

  get error(): Error | null {
    return this.#error
  }

  get followed(): boolean {
    return this.#listeners.size > 0
  }

  execution(): Execution {
    return { ...this.#summary, outputs: [...this.#outputs] }
  }

  /** Returns the function that unsubscribes. */
  subscribe(listener: (change: RecordChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A terminal state stays. */
  update(summary: ExecutionSummary): void {
    if (this.terminal && !isTerminal(summary.status)) return
    this.#summary = summary
    this.#tell({ kind: 'summary' })
  }

  /** Throws RangeError when an output before it was missed. */
  put(index: number, output: Output): void {
    if (index > this.#outputs.length)
      throw new RangeError(`output ${index} arrived while ${this.#outputs.length} are known`)
    this.#outputs[index] = folded(output)
    this.#tell({ kind: 'output', index })
  }

  splice(index: number, from: number, added: string): void {
    const output = this.#outputs[index]
    if (output?.output_type !== 'stream') throw new RangeError(`output ${index} is no stream that is known`)
    const { text, exact } = spliceText(output.text, from, added)
    if (!exact) this.exact = false
    this.#outputs[index] = { ...output, text }
    this.#tell({ kind: 'spliced', index, from })
  }

  clear(): void {
    this.#outputs = []
    this.exact = true
    this.#tell({ kind: 'cleared' })
  }

  /** Takes over outputs that were read as a whole, and tells only what differs from what was known. */
  load(outputs: readonly Output[], exact = true): void {
    const known = this.#outputs
    const fresh = outputs.map(folded)
    // Outputs only grow, unless they were cleared meanwhile.
    if (fresh.length < known.length) {
      this.clear()
      this.#outputs = fresh
      this.exact = exact
      for (const index of fresh.keys()) this.#tell({ kind: 'output', index })
      return
    }
    this.#outputs = fresh
    this.exact = exact
    fresh.forEach((output, index) => {
      const change = difference(known[index], output, index)
      if (change) this.#tell(change)
    })
  }

  fail(error: Error): void {
    if (this.terminal || this.#error) return
    this.#error = error
    this.#tell({ kind: 'failed' })
  }

  #tell(change: RecordChange): void {
    this.version++
    this.#shown = null
    for (const listener of [...this.#listeners]) listener(change)
  }
}

function folded(output: Output): Output {
  if (output.output_type !== 'stream' || typeof output.text !== 'string') return output
  const text = fold(output.text)
  return text === output.text ? output : { ...output, text }
}

function difference(before: Output | undefined, now: Output, index: number): RecordChange | null {
  if (before?.output_type === 'stream' && now.output_type === 'stream' && before.name === now.name) {
    const from = commonStart(before.text, now.text)
    if (from === charsOf(before.text) && from === charsOf(now.text)) return null
    return { kind: 'spliced', index, from }
  }
  return before !== undefined && JSON.stringify(before) === JSON.stringify(now)
    ? null
    : { kind: 'output', index }
}
