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

/** As it is until somebody sees it. */
type Unhashed = { -readonly [Name in keyof CellDocument]: CellDocument[Name] }

export class MirrorCells {
  #order: CellDocument[] = []
  /** Cells whose text was changed and that nobody has looked at since: hashing each of many edits costs more than all else. */
  readonly #unhashed = new Set<Unhashed>()
  readonly #index = new Map<CellId, number>()
  /** `#index` does not hold for positions any more. */
  #stale = false

  get all(): readonly CellDocument[] {
    for (const cell of this.#unhashed) cell.source_hash = sourceHash(cell.source)
    this.#unhashed.clear()
    return this.#order
  }

  get(cellId: CellId): CellDocument | undefined {
    const index = this.#find(cellId)
    const cell = index === undefined ? undefined : this.#order[index]
    if (cell && this.#unhashed.delete(cell)) (cell as Unhashed).source_hash = sourceHash(cell.source)
    return cell
  }

  load(cells: readonly CellDocument[]): void {
    this.#order = [...cells]
    this.#unhashed.clear()
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
        for (const cell of part.insert) after.push(this.#made(cell))
        continue
      }
      const length = 'retain' in part ? part.retain : part.delete
      if (at + length > before.length)
        throw new RangeError(`cells delta reaches beyond ${before.length} cells`)
      for (const cell of before.slice(at, at + length)) {
        if ('retain' in part) after.push(cell)
        else this.#unhashed.delete(cell)
      }
      at += length
    }
    for (let i = at; i < before.length; i++) after.push(before[i] as CellDocument)
    this.#order = after
    this.#stale = true
  }

  #made(cell: DocumentCell): CellDocument {
    const made: Unhashed = { ...cell, source_hash: '' }
    this.#unhashed.add(made)
    return made
  }

  #applyChange(change: CellChange): void {
    const index = this.#find(change.cell_id)
    const cell = index === undefined ? undefined : this.#order[index]
    if (index === undefined || !cell)
      throw new RangeError(`a change of cell ${change.cell_id}, which is not known`)
    const changed: Unhashed = { ...cell }
    if (change.source) changed.source = applyTextDelta(cell.source, change.source)
    if (change.cell_type !== undefined) changed.cell_type = change.cell_type
    if (change.metadata) changed.metadata = change.metadata
    if (change.attachments) changed.attachments = change.attachments
    else if (change.attachments === null) delete changed.attachments
    if (this.#unhashed.delete(cell) || changed.source !== cell.source) this.#unhashed.add(changed)
    this.#order[index] = changed
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
