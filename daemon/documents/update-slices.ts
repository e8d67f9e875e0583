/**
 * Cuts Yjs updates into slices that can be applied one after another, each complete in what it builds on. Applying a large update is
 * one turn of the loop, however long it takes; slices of it are many short ones, and lead to the same document.
 *
 * Items go in the order in which Yjs itself would take them in: each behind its neighbours and its parent. What builds on something
 * that is lost comes last, and waits in the document as it does after the whole update.
 */
import * as encoding from 'lib0/encoding'
import * as Y from 'yjs'
import { SLICE_BYTES } from './founding-update.ts'

type Struct = ReturnType<typeof Y.decodeUpdate>['structs'][number]

/** Ranges of deleted items in one slice. */
const SLICE_RANGES = 2000

/** Slices of a document's updates, given in their order. One slicer for each document. */
export class UpdateSlicer {
  /** The clock that each client has reached. */
  readonly #state = new Map<number, number>()

  #reached(client: number): number {
    return this.#state.get(client) ?? 0
  }

  *slices(update: Uint8Array): Generator<Uint8Array> {
    const { structs, ds } = Y.decodeUpdate(update)
    const queues = new Map<number, Queue>()
    for (const struct of structs) {
      if (struct instanceof Y.Skip) continue
      const queue = queues.get(struct.id.client) ?? { structs: [], next: 0 }
      queue.structs.push(struct)
      queues.set(struct.id.client, queue)
    }
    const slice = new Slice()
    for (let moved = true; moved; ) {
      moved = false
      for (const [client, queue] of queues) {
        for (let struct = queue.structs[queue.next]; struct && this.#fits(struct); ) {
          slice.add(struct)
          this.#state.set(client, Math.max(this.#reached(client), struct.id.clock + struct.length))
          moved = true
          if (slice.bytes >= SLICE_BYTES) yield slice.cut()
          struct = queue.structs[++queue.next]
        }
      }
    }
    for (const queue of queues.values()) {
      for (const struct of queue.structs.slice(queue.next)) slice.add(struct)
    }
    if (slice.bytes > 0) yield slice.cut()
    yield* deletions(ds)
  }

  /** Whether all that it builds on is there. */
  #fits(struct: Struct): boolean {
    if (struct.id.clock > this.#reached(struct.id.client)) return false
    if (!(struct instanceof Y.Item)) return true
    const parent: unknown = struct.parent
    return [struct.origin, struct.rightOrigin, parent].every(
      (id) => !(id instanceof Y.ID) || id.clock < this.#reached(id.client),
    )
  }
}

interface Queue {
  readonly structs: Struct[]
  next: number
}

/** An update in the making; items of one client follow each other without a hole. */
class Slice {
  readonly #parts = new Map<number, { clock: number; count: number; encoder: Y.UpdateEncoderV1 }>()
  bytes = 0

  add(struct: Struct): void {
    const { client, clock } = struct.id
    const part = this.#parts.get(client) ?? { clock, count: 0, encoder: new Y.UpdateEncoderV1() }
    this.#parts.set(client, part)
    const before = encoding.length(part.encoder.restEncoder)
    struct.write(part.encoder, 0)
    part.count++
    this.bytes += encoding.length(part.encoder.restEncoder) - before
  }

  cut(): Uint8Array {
    const update = encoding.createEncoder()
    encoding.writeVarUint(update, this.#parts.size)
    for (const [client, { clock, count, encoder }] of this.#parts) {
      encoding.writeVarUint(update, count)
      encoding.writeVarUint(update, client)
      encoding.writeVarUint(update, clock)
      encoding.writeUint8Array(update, encoding.toUint8Array(encoder.restEncoder))
    }
    encoding.writeVarUint(update, 0)
    this.#parts.clear()
    this.bytes = 0
    return encoding.toUint8Array(update)
  }
}

/** Updates that bring nothing and delete what the document's updates say is deleted. */
function* deletions(ds: ReturnType<typeof Y.decodeUpdate>['ds']): Generator<Uint8Array> {
  for (const [client, ranges] of ds.clients) {
    for (let at = 0; at < ranges.length; at += SLICE_RANGES) {
      const some = ranges.slice(at, at + SLICE_RANGES)
      const update = encoding.createEncoder()
      encoding.writeVarUint(update, 0)
      encoding.writeVarUint(update, 1)
      encoding.writeVarUint(update, client)
      encoding.writeVarUint(update, some.length)
      for (const { clock, len } of some) {
        encoding.writeVarUint(update, clock)
        encoding.writeVarUint(update, len)
      }
      yield encoding.toUint8Array(update)
    }
  }
}
