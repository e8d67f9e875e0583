/** The cells of a document in order and by id, kept beside the Y.Array, whose own lookups walk the list. */

import * as Y from 'yjs'
import type { TextDelta } from '../../protocol/events.ts'
import type { CellId } from '../../protocol/ids.ts'
import { type CellMap, idOf, sourceOf } from './layout.ts'
import { TextPlaces } from './text-edit.ts'

export class CellList {
  #order: CellMap[] = []
  readonly #byId = new Map<CellId, CellMap>()

  /** Texts that were read; a Y.Text that was edited often takes long to read. */
  #sources: WeakMap<CellMap, string> | null = null
  #places = new TextPlaces()

  /** The cell's text now. */
  source(cell: CellMap): string {
    let source = this.#sources?.get(cell)
    if (source === undefined) {
      source = sourceOf(cell).toString()
      this.#remember(cell, source)
    }
    return source
  }

  /** Makes `source` the cell's text; `delta` is how it differs from the present one. */
  editSource(transaction: Y.Transaction, cell: CellMap, delta: TextDelta, source: string): void {
    this.#places.edit(transaction, sourceOf(cell), delta)
    this.#remember(cell, source)
  }

  #remember(cell: CellMap, source: string): void {
    this.#sources ??= new WeakMap()
    this.#sources.set(cell, source)
  }

  /** Something may have changed the cell's text. */
  sourceChanged(cell: CellMap): void {
    this.#sources?.delete(cell)
    const text = cell.get('source')
    if (text instanceof Y.Text) this.#places.forget(text)
  }

  get count(): number {
    return this.#order.length
  }

  ids(): CellId[] {
    return this.#order.map(idOf)
  }

  slice(start: number, count: number): CellMap[] {
    return this.#order.slice(start, start + count)
  }

  find(id: CellId): CellMap | undefined {
    return this.#byId.get(id)
  }

  /** -1 when there is no such cell. */
  indexOf(id: CellId): number {
    const cell = this.#byId.get(id)
    return cell === undefined ? -1 : this.#order.indexOf(cell)
  }

  /** Adds one at the end, when a list is first made. */
  append(cell: CellMap): void {
    this.#order.push(cell)
    this.#byId.set(idOf(cell), cell)
  }

  insert(index: number, cell: CellMap): void {
    this.#order.splice(index, 0, cell)
    this.#byId.set(idOf(cell), cell)
  }

  remove(index: number, id: CellId): void {
    this.#order.splice(index, 1)
    this.#byId.delete(id)
  }

  /** Follows a delta of the Y.Array. */
  follow(delta: readonly { retain?: number; delete?: number; insert?: unknown }[]): void {
    let at = 0
    const removed: CellMap[] = []
    for (const step of delta) {
      if (step.retain !== undefined) at += step.retain
      else if (step.delete !== undefined) removed.push(...this.#order.splice(at, step.delete))
      else if (Array.isArray(step.insert)) {
        const made = step.insert as CellMap[]
        this.#order = this.#order.slice(0, at).concat(made, this.#order.slice(at))
        at += made.length
      }
    }
    // A deleted map no longer tells its id, and a moved cell's id belongs to its copy already.
    const gone = new Set(removed)
    if (gone.size > 0) for (const [id, cell] of this.#byId) if (gone.has(cell)) this.#byId.delete(id)
    for (const step of delta) {
      if (Array.isArray(step.insert))
        for (const cell of step.insert as CellMap[]) this.#byId.set(idOf(cell), cell)
    }
  }

  /** Takes the order as the Y.Array has it now. */
  reset(cells: CellMap[]): void {
    this.#order = cells
    this.#sources = null
    this.#places = new TextPlaces()
    this.#byId.clear()
    for (const cell of cells) this.#byId.set(idOf(cell), cell)
  }
}
