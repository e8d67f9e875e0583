/**
 * The cells of a room in document order, as deltas leave them. Knows documents only; executions are joined by the mirror.
 * A delta that does not fit throws RangeError and the caller fetches everything afresh.
 */
import { digest } from 'lib0/hash/sha256'
import type { CellChange, CellsDelta, DocumentCell } from '../../protocol/events.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { Cell } from '../../protocol/notebook.ts'
import { applyTextDelta } from './text-delta.ts'

/** One cell without execution and outputs. Replaced, never changed, so that identity tells whether it is the same. */
export type CellDocument = Omit<Cell, 'execution' | 'outputs'>

export class MirrorCells {
  #order: CellDocument[] = []
  readonly #index = new Map<CellId, number>()
  /** `#index` does not hold for positions any more. */
  #stale = false

  get all(): readonly CellDocument[] {
    return this.#order
  }

  get(cellId: CellId): CellDocument | undefined {
    const index = this.#find(cellId)
    return index === undefined ? undefined : this.#order[index]
  }

  load(cells: readonly CellDocument[]): void {
    this.#order = [...cells]
    this.#stale = true
  }

  apply(delta: CellsDelta, changes: readonly CellChange[]): void {
    if (delta.length > 0) this.#applyDelta(delta)
    for (const change of changes) this.#applyChange(change)
  }

  #applyDelta(delta: CellsDelta): void {
    const before = this.#order
    const after: CellDocument[] = []
    let at = 0
    for (const part of delta) {
      if ('insert' in part) {
        for (const cell of part.insert) after.push(fromDocument(cell))
        continue
      }
      const length = 'retain' in part ? part.retain : part.delete
      if (at + length > before.length)
        throw new RangeError(`cells delta reaches beyond ${before.length} cells`)
      if ('retain' in part) for (let i = at; i < at + length; i++) after.push(before[i] as CellDocument)
      at += length
    }
    for (let i = at; i < before.length; i++) after.push(before[i] as CellDocument)
    this.#order = after
    this.#stale = true
  }

  #applyChange(change: CellChange): void {
    const index = this.#find(change.cell_id)
    const cell = index === undefined ? undefined : this.#order[index]
    if (index === undefined || !cell)
      throw new RangeError(`a change of cell ${change.cell_id}, which is not known`)
    const source = change.source ? applyTextDelta(cell.source, change.source) : cell.source
    const { attachments: old, ...rest } = cell
    const attachments = change.attachments === undefined ? old : (change.attachments ?? undefined)
    this.#order[index] = {
      ...rest,
      ...(attachments === undefined ? {} : { attachments }),
      source,
      source_hash: source === cell.source ? cell.source_hash : sourceHash(source),
      cell_type: change.cell_type ?? cell.cell_type,
      metadata: change.metadata ?? cell.metadata,
    }
  }

  #find(cellId: CellId): number | undefined {
    if (this.#stale) {
      this.#index.clear()
      for (const [index, cell] of this.#order.entries()) this.#index.set(cell.cell_id, index)
      this.#stale = false
    }
    return this.#index.get(cellId)
  }
}

/** First 16 hex digits of SHA-256 of the UTF-8 source, as the daemon computes it. */
export function sourceHash(source: string): string {
  const bytes = digest(new TextEncoder().encode(source)).subarray(0, 8)
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

function fromDocument(cell: DocumentCell): CellDocument {
  return { ...cell, source_hash: sourceHash(cell.source) }
}
