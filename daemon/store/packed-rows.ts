/**
 * Statements on their way from a worker thread to the store's writer, through the main thread as bytes: what makes thousands of rows
 * and what writes them are other threads, and the one between them only hands on a reference to shared memory.
 */
import { decode, encode } from '../../protocol/codec.ts'
import type { SqlValue, Statement, WriteUnit } from './store.ts'
import type { Transaction } from './transaction.ts'

interface Packed {
  readonly texts: readonly string[]
  /** Index of the text, then the values. */
  readonly rows: readonly (readonly [number, ...SqlValue[]])[]
}

/** Collects statements of which most have the same few texts. */
export class RowPacker {
  readonly #texts = new Map<string, number>()
  #rows: [number, ...SqlValue[]][] = []
  /** Characters and bytes of values, about. */
  size = 0

  add({ sql, values }: Statement): void {
    let text = this.#texts.get(sql)
    if (text === undefined) {
      text = this.#texts.size
      this.#texts.set(sql, text)
    }
    this.#rows.push([text, ...values])
    for (const value of values)
      this.size += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8
  }

  /** All since the last time, in shared memory; null: there are none. */
  take(): Uint8Array | null {
    if (this.#rows.length === 0) return null
    const packed = shared(encode({ texts: [...this.#texts.keys()], rows: this.#rows } satisfies Packed))
    this.#rows = []
    this.size = 0
    return packed
  }
}

/** A copy that all threads see. */
export function shared(bytes: Uint8Array): Uint8Array {
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.length))
  copy.set(bytes)
  return copy
}

/** The procedure behind `Store.writeShared`. */
export function writeShared(
  transaction: Transaction,
  { unit, packed }: { unit: WriteUnit; packed: Uint8Array | null },
): void {
  for (const { sql, values } of unit) transaction.run(sql, ...values)
  if (packed === null) return
  // A copy of its own: values are views of it.
  const { texts, rows } = decode(Buffer.from(packed)) as Packed
  for (const [text, ...values] of rows) transaction.run(texts[text] ?? '', ...values)
}
