/**
 * Ids of executions that are stored in thousands at once. Each is greater than the one before, so that their rows go to the end of the
 * store's trees and lie beside each other; ids that are random all over touch a page for each row, which takes several times as long.
 *
 * Unique without asking: the beginning is random and made once for each thread, as it starts; the end counts.
 */
import { randomUUID } from 'node:crypto'
import type { ExecutionId } from '../../protocol/ids.ts'

/** Hex digits that count, behind the last hyphen of a UUID. */
const COUNTED = 12

export class RisingIds {
  readonly #beginning = randomUUID().slice(0, -COUNTED)
  #count = 0

  next(): ExecutionId {
    return `${this.#beginning}${(this.#count++).toString(16).padStart(COUNTED, '0')}` as ExecutionId
  }
}
