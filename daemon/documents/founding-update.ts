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
export function asSeed(content: DocumentSeed): DocumentSeed {
  return content.nbformat === 4 ? content : { ...content, nbformat: 4, nbformat_minor: 5 }
}

/** `client`: the Yjs client id that the document begins with; a random number of 32 bits. */
export function foundingUpdate(seed: DocumentSeed, client = randomClient()): SlicedUpdate {
  const writer = new ItemWriter(client)
  const slices: Uint8Array[] = []
  const bodies: Uint8Array[] = []
  let first = 0
  const cut = (): void => {
    const { items, clock } = writer
    const body = encoding.toUint8Array(items)
    slices.push(asUpdate(client, first, writer.count, [body]))
    bodies.push(body)
    first = clock
    writer.next()
  }
  let total = 0
  writer.value('meta', 'nbformat', seed.nbformat)
  writer.value('meta', 'nbformat_minor', seed.nbformat_minor)
  writer.map('meta', 'metadata', seed.metadata)
  let left: number | null = null
  for (const cell of seed.cells) {
    left = writeCell(writer, cell, left)
    if (encoding.length(writer.items) < SLICE_BYTES) continue
    total += writer.count
    cut()
  }
  if (writer.count > 0) {
    total += writer.count
    cut()
  }
  return { slices, whole: asUpdate(client, 0, total, bodies) }
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

class ItemWriter {
  readonly #client: number
  items = encoding.createEncoder()
  /** Items since `next`. */
  count = 0
  clock = 0

  constructor(client: number) {
    this.#client = client
  }

  next(): void {
    this.items = encoding.createEncoder()
    this.count = 0
  }

  cell(left: number | null): number {
    if (left === null) this.#begin(CONTENT_TYPE, 'cells', null)
    else {
      encoding.writeUint8(this.items, CONTENT_TYPE | HAS_LEFT)
      this.#id(left)
    }
    encoding.writeVarUint(this.items, Y_MAP)
    return this.#end(1)
  }

  value(parent: Parent, key: string, value: unknown): void {
    this.#begin(CONTENT_ANY, parent, key)
    encoding.writeVarUint(this.items, 1)
    encoding.writeAny(this.items, value as Parameters<typeof encoding.writeAny>[1])
    this.#end(1)
  }

  type(parent: Parent, key: string, type: number): number {
    this.#begin(CONTENT_TYPE, parent, key)
    encoding.writeVarUint(this.items, type)
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
    encoding.writeVarString(this.items, text)
    this.#end(text.length)
  }

  #begin(content: number, parent: Parent, key: string | null): void {
    encoding.writeUint8(this.items, key === null ? content : content | HAS_KEY)
    const root = typeof parent === 'string'
    encoding.writeVarUint(this.items, root ? 1 : 0)
    if (root) encoding.writeVarString(this.items, parent)
    else this.#id(parent)
    if (key !== null) encoding.writeVarString(this.items, key)
  }

  #id(clock: number): void {
    encoding.writeVarUint(this.items, this.#client)
    encoding.writeVarUint(this.items, clock)
  }

  #end(length: number): number {
    const own = this.clock
    this.clock += length
    this.count++
    return own
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
