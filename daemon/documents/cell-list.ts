/** The cells of a document in order and by id, kept beside the Y.Array, whose own lookups walk the list. */
import type { CellId } from '../../protocol/ids.ts'
import { type CellMap, idOf } from './layout.ts'

export class CellList {
  #order: CellMap[] = []
  readonly #byId = new Map<CellId, CellMap>()

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

  insert(index: number, cell: CellMap): void {
    this.#order.splice(index, 0, cell)
    this.#byId.set(idOf(cell), cell)
  }

  remove(index: number, id: CellId): void {
    this.#order.splice(index, 1)
    this.#byId.delete(id)
  }

  /** Takes the order as the Y.Array has it now. */
  reset(cells: CellMap[]): void {
    this.#order = cells
    this.#byId.clear()
    for (const cell of cells) this.#byId.set(idOf(cell), cell)
  }
}
