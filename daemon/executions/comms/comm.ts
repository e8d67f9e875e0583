/**
 * One open comm in memory. Values of its state are kept encoded: their size is known, they never change, and only who asks decodes them.
 *
 * Supersession: a peer's update holds at once. Until the kernel has taken it up, what the kernel says of the same names was said
 * before (or echoes an older message) and would take the newer value back; so it is passed over. What the kernel answers to that very
 * message (a value it corrected) counts.
 */
import { decode, encode } from '../../../protocol/codec.ts'
import {
  COMM_INLINE,
  COMM_VALUE_MAX,
  type CommId,
  type CommView,
  putBuffers,
} from '../../../protocol/comms.ts'
import type { ExecutionId } from '../../../protocol/ids.ts'
import { isRecord } from '../messages.ts'

/** What of a comm is not its state; stored as one row. */
export interface CommBody {
  readonly target_name: string
  readonly target_module: string | null
  readonly data: Record<string, unknown>
  readonly metadata: Record<string, unknown>
  readonly buffers: Uint8Array[]
  readonly execution_id: ExecutionId | null
  partial: boolean
}

/** Bytes of `data`, `metadata` and `buffers` of comm_open that are kept. */
const OPENING_MAX = 1024 * 1024

/** A comm as it was at one moment, cheap to take and shown later. */
export interface CommSnapshot {
  readonly id: CommId
  readonly body: Readonly<CommBody>
  readonly values: ReadonlyMap<string, Uint8Array>
  /** Bytes of all but the values. */
  readonly bodyBytes: number
}

export class OpenComm {
  readonly id: CommId
  readonly opened: number
  readonly body: CommBody
  readonly #values = new Map<string, Uint8Array>()
  /** Name → message that a peer set it by and that the kernel has not taken up. */
  readonly #pending = new Map<string, string>()
  readonly #bodyBytes: number
  #stateBytes = 0
  /** Order of the last use among the room's comms. */
  used: number

  constructor(id: CommId, opened: number, body: CommBody) {
    this.id = id
    this.opened = opened
    this.used = opened
    const bytes = encode([body.data, body.metadata, body.buffers]).length
    const fits = bytes <= OPENING_MAX
    this.body = fits ? body : { ...body, data: {}, metadata: {}, buffers: [], partial: true }
    this.#bodyBytes = 256 + (fits ? bytes : 0)
  }

  get bytes(): number {
    return this.#bodyBytes + this.#stateBytes
  }

  get stateBytes(): number {
    return this.#stateBytes
  }

  /** Sets a value; false: it is the same as before, or too large to be kept (the comm is then `partial`). */
  set(name: string, value: unknown): boolean {
    const encoded = encode(value)
    const before = this.#values.get(name)
    if (before && Buffer.compare(before, encoded) === 0) return false
    if (encoded.length > COMM_VALUE_MAX) {
      this.drop(name)
      this.body.partial = true
      return true
    }
    this.put(name, encoded)
    return true
  }

  /** A value as a row has it. */
  put(name: string, encoded: Uint8Array): void {
    this.#stateBytes += encoded.length + name.length - this.#sizeOf(name)
    this.#values.set(name, encoded)
  }

  drop(name: string): void {
    this.#stateBytes -= this.#sizeOf(name)
    this.#values.delete(name)
  }

  /** Lets go of the whole state. */
  forget(): void {
    this.#values.clear()
    this.#stateBytes = 0
    this.body.partial = true
  }

  encoded(name: string): Uint8Array | undefined {
    return this.#values.get(name)
  }

  value(name: string): unknown {
    const encoded = this.#values.get(name)
    return encoded && decode(encoded)
  }

  // --- supersession --------------------------------------------------------------------------------------------------

  /** A peer set these names by this message. */
  expect(names: Iterable<string>, messageId: string): void {
    for (const name of names) this.#pending.set(name, messageId)
  }

  /** The kernel has taken up the message: what it says from now on is newer. */
  takenUp(messageId: string): void {
    for (const [name, id] of this.#pending) if (id === messageId) this.#pending.delete(name)
  }

  /** Whether what the kernel says of this name, in answer to `parent`, is older than what a peer said. */
  superseded(name: string, parent: string | null): boolean {
    const pending = this.#pending.get(name)
    return pending !== undefined && pending !== parent
  }

  // --- views ---------------------------------------------------------------------------------------------------------

  snapshot(): CommSnapshot {
    const { id, body } = this
    return { id, body: { ...body }, values: new Map(this.#values), bodyBytes: this.#bodyBytes }
  }

  /** Values by name as events carry them. */
  inline(names: Iterable<string>): { state: Record<string, unknown>; omitted: string[] } {
    return inlineOf(this.#values, names, COMM_INLINE)
  }

  #sizeOf(name: string): number {
    const value = this.#values.get(name)
    return value === undefined ? 0 : value.length + name.length
  }
}

/** `names`: only these values. `limit`: bytes above which a value is only named. */
export function viewOf(
  { id, body, values }: CommSnapshot,
  limit = COMM_INLINE,
  names: Iterable<string> = values.keys(),
): CommView {
  return { comm_id: id, ...body, ...inlineOf(values, names, limit) }
}

function inlineOf(
  values: ReadonlyMap<string, Uint8Array>,
  names: Iterable<string>,
  limit: number,
): { state: Record<string, unknown>; omitted: string[] } {
  const state: [string, unknown][] = []
  const omitted: string[] = []
  for (const name of names) {
    const encoded = values.get(name)
    if (encoded === undefined) continue
    if (encoded.length > limit) omitted.push(name)
    else state.push([name, decode(encoded)])
  }
  return { state: Object.fromEntries(state), omitted }
}

/** State with its buffers in place, the other data, and buffers that are no part of the state. */
export function splitState(
  data: Record<string, unknown>,
  buffers: readonly Uint8Array[],
): { state: Record<string, unknown> | null; rest: Record<string, unknown>; loose: Uint8Array[] } {
  const { state, buffer_paths, ...rest } = data
  if (!isRecord(state)) return { state: null, rest: data, loose: buffers.map((buffer) => buffer.slice()) }
  const count = Array.isArray(buffer_paths) ? buffer_paths.length : 0
  const loose = buffers.slice(count).map((buffer) => buffer.slice())
  return { state: putBuffers(state, buffer_paths, buffers), rest, loose }
}
