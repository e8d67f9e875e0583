/**
 * The Yjs update of a new document, written straight from a notebook's cells: what a Y.Doc that is given the same cells would encode,
 * without making that document first, which takes ten times as long. It comes in slices that are applied one after another, so
 * that no turn of the daemon's loop has to take in all of a large notebook; joined they are the snapshot that is stored.
 *
 * The format is Yjs's first (`UpdateEncoderV1`): for each client `count | client | clock | items`, then what is deleted, here
 * nothing. An item names its left neighbour, or else its parent and its key in it.
 */
import * as encoding from 'lib0/encoding'
import type { DocumentSeed } from './document.ts'
import { type CellSeed, wellFormed } from './layout.ts'

/** Bytes of a slice, about; a larger cell is one by itself. A few milliseconds of work for who applies it. */
export const SLICE_BYTES = 32 * 1024

const CONTENT_STRING = 4
const CONTENT_TYPE = 7
const CONTENT_ANY = 8
const HAS_KEY = 0x20
const HAS_LEFT = 0x80

/** lib0's types of values. */
const ANY_STRING = 119
const ANY_NULL = 126
type AnyValue = Parameters<typeof encoding.writeAny>[1]

const Y_ARRAY = 0
const Y_MAP = 1
const Y_TEXT = 2

/** A document's update in slices: each builds on those before it. */
export interface SlicedUpdate {
  readonly slices: readonly Uint8Array[]
  /** All of them as one update. */
  readonly whole: Uint8Array
}

/** Old formats are shown as format 4 has them. */
export function asSeed<Seed extends Pick<DocumentSeed, 'nbformat' | 'nbformat_minor'>>(content: Seed): Seed {
  return content.nbformat === 4 ? content : { ...content, nbformat: 4, nbformat_minor: 5 }
}

/** `client`: the Yjs client id that the document begins with; a random number of 32 bits. */
export function foundingUpdate(seed: DocumentSeed, client = randomClient()): SlicedUpdate {
  const slices = [...foundingSlices(seed, client)]
  return { slices: slices.map(({ update }) => update), whole: wholeOf(slices, client) }
}

/** A slice, and what of it is items. */
interface Slice {
  readonly update: Uint8Array
  readonly body: Uint8Array
  readonly count: number
}

/** A seed whose cells come one by one. */
export type FlowingSeed = Omit<DocumentSeed, 'cells'> & { readonly cells: Iterable<CellSeed> }

/** The slices one by one, each complete in what it builds on. */
export function* foundingSlices(seed: FlowingSeed, client = randomClient()): Generator<Slice> {
  const writer = new ItemWriter(client)
  let first = 0
  const cut = (): Slice => {
    const body = writer.body()
    const { count } = writer
    const update = asUpdate(client, first, count, [body])
    first = writer.clock
    writer.next()
    return { update, body: update.subarray(update.length - 1 - body.length, update.length - 1), count }
  }
  writer.value('meta', 'nbformat', seed.nbformat)
  writer.value('meta', 'nbformat_minor', seed.nbformat_minor)
  writer.map('meta', 'metadata', seed.metadata)
  let left: number | null = null
  for (const cell of seed.cells) {
    left = writeCell(writer, cell, left)
    if (writer.length >= SLICE_BYTES) yield cut()
  }
  if (writer.count > 0) yield cut()
}

function wholeOf(slices: readonly Slice[], client: number): Uint8Array {
  const count = slices.reduce((sum, slice) => sum + slice.count, 0)
  return asUpdate(
    client,
    0,
    count,
    slices.map(({ body }) => body),
  )
}

/** Returns the clock of the cell's own item. The same keys in the same order as `makeCell` of layout.ts. */
function writeCell(writer: ItemWriter, cell: CellSeed, left: number | null): number {
  const own = writer.cell(left)
  writer.value(own, 'id', cell.cell_id)
  writer.value(own, 'cell_type', cell.cell_type)
  writer.text(own, 'source', wellFormed(cell.source))
  writer.map(own, 'metadata', cell.metadata)
  if (cell.attachments) writer.value(own, 'attachments', cell.attachments)
  if (cell.cell_type === 'code') {
    writer.type(own, 'outputs', Y_ARRAY)
    writer.value(own, 'execution_count', null)
    writer.value(own, 'execution_state', 'idle')
  }
  return own
}

/** A root by its name, or an item by its clock. */
type Parent = string | number

/** Room that is always left for the few numbers of an item. */
const ITEM_BYTES = 64

class ItemWriter {
  readonly #client: Uint8Array
  #bytes = Buffer.allocUnsafe(2 * SLICE_BYTES)
  #at = 0
  /** Items since `next`. */
  count = 0
  clock = 0

  constructor(client: number) {
    this.#client = encoding.encode((encoder) => encoding.writeVarUint(encoder, client))
  }

  /** Bytes since `next`. */
  get length(): number {
    return this.#at
  }

  /** Valid until something else is written. */
  body(): Uint8Array {
    return this.#bytes.subarray(0, this.#at)
  }

  next(): void {
    this.#at = 0
    this.count = 0
  }

  cell(left: number | null): number {
    if (left === null) this.#begin(CONTENT_TYPE, 'cells', null)
    else {
      this.#room(ITEM_BYTES)
      this.#byte(CONTENT_TYPE | HAS_LEFT)
      this.#id(left)
    }
    this.#byte(Y_MAP)
    return this.#end(1)
  }

  value(parent: Parent, key: string, value: unknown): void {
    this.#begin(CONTENT_ANY, parent, key)
    this.#byte(1)
    if (value === null) this.#byte(ANY_NULL)
    else if (typeof value === 'string') {
      this.#byte(ANY_STRING)
      this.#string(value)
    } else this.#copy(encoding.encode((encoder) => encoding.writeAny(encoder, value as AnyValue)))
    this.#end(1)
  }

  type(parent: Parent, key: string, type: number): number {
    this.#begin(CONTENT_TYPE, parent, key)
    this.#byte(type)
    return this.#end(1)
  }

  map(parent: Parent, key: string, values: Readonly<Record<string, unknown>>): void {
    const own = this.type(parent, key, Y_MAP)
    for (const [name, value] of Object.entries(values)) this.value(own, name, value)
  }

  text(parent: Parent, key: string, text: string): void {
    const own = this.type(parent, key, Y_TEXT)
    if (text === '') return
    this.#begin(CONTENT_STRING, own, null)
    this.#string(text)
    this.#end(text.length)
  }

  #begin(content: number, parent: Parent, key: string | null): void {
    this.#room(ITEM_BYTES)
    this.#byte(key === null ? content : content | HAS_KEY)
    if (typeof parent === 'string') {
      this.#byte(1)
      this.#string(parent)
    } else {
      this.#byte(0)
      this.#id(parent)
    }
    if (key !== null) this.#string(key)
  }

  #id(clock: number): void {
    this.#copy(this.#client)
    this.#number(clock)
  }

  #end(length: number): number {
    const own = this.clock
    this.clock += length
    this.count++
    return own
  }

  #byte(value: number): void {
    this.#bytes[this.#at++] = value
  }

  /** A varUint of lib0; fits into what `#room` has left. */
  #number(value: number): void {
    let rest = value
    for (; rest > 0x7f; rest = Math.floor(rest / 128)) this.#byte(0x80 | (rest & 0x7f))
    this.#byte(rest)
  }

  #string(text: string): void {
    const length = Buffer.byteLength(text)
    this.#room(length + ITEM_BYTES)
    this.#number(length)
    this.#bytes.write(text, this.#at)
    this.#at += length
  }

  #copy(bytes: Uint8Array): void {
    this.#room(bytes.length + ITEM_BYTES)
    this.#bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(2 * (this.#at + bytes))
    larger.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = larger
  }
}

function asUpdate(client: number, clock: number, count: number, bodies: readonly Uint8Array[]): Uint8Array {
  const head = encoding.createEncoder()
  encoding.writeVarUint(head, 1)
  encoding.writeVarUint(head, count)
  encoding.writeVarUint(head, client)
  encoding.writeVarUint(head, clock)
  const before = encoding.toUint8Array(head)
  const update = new Uint8Array(bodies.reduce((sum, body) => sum + body.length, before.length + 1))
  update.set(before)
  let at = before.length
  for (const body of bodies) {
    update.set(body, at)
    at += body.length
  }
  // The last byte is 0: nothing is deleted.
  return update
}

function randomClient(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0] ?? 1
}
