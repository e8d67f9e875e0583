/**
 * Comms: Jupyter's open-ended conversations between code in a kernel and code in front of it; widgets are made of them. The room is the
 * one front end that the kernel sees. It keeps every open comm with its state, so that whoever comes late has what the others have.
 *
 * Binary values: in Jupyter's messages they travel beside the JSON, as `buffers` with `buffer_paths`. Here a state holds them where they
 * belong, as bytes in the tree (MessagePack has them); `putBuffers` and `takeBuffers` go between the two forms.
 */
import { z } from 'zod'
import { RoomdError } from './errors.ts'
import { ExecutionId } from './ids.ts'
import { lazily } from './lazily.ts'

/** Chosen by who opens the comm, kernel or peer. */
export const CommId = lazily(() => z.string().min(1).max(256).brand<'CommId'>())
export type CommId = z.output<typeof CommId>

/** Bytes of one state value or one message (MessagePack) above which events and pages leave it out; it is read by `get_comm`, `read_comm_message`. */
export const COMM_INLINE = 64 * 1024
/** Bytes of state that a room keeps. Beyond it the comms that were silent longest lose their state (`partial`). */
export const COMM_STATE_MAX = 48 * 1024 * 1024
/** Bytes of one state value that can be kept at all. */
export const COMM_VALUE_MAX = 16 * 1024 * 1024
/** Open comms of a room. Beyond it the one that was silent longest is forgotten. */
export const COMMS_MAX = 10_000

const record = lazily(() => z.record(z.string(), z.unknown()))
const bytes = lazily(() => z.custom<Uint8Array>((value) => value instanceof Uint8Array, 'expected bytes'))

/** An open comm as events, pages and answers show it. */
export const CommView = lazily(() =>
  z.object({
    comm_id: CommId,
    target_name: z.string(),
    target_module: z.string().nullable(),
    /** Of comm_open, without `state` and `buffer_paths`. */
    data: record,
    metadata: record,
    /** Of comm_open, those that no `buffer_paths` put into the state. */
    buffers: z.array(bytes),
    /** Whose run opened it; null: a peer did, or code outside a run. Output of its callbacks goes there. */
    execution_id: ExecutionId.nullable(),
    /** By name, newest values. Bytes are where Jupyter's `buffer_paths` would put them. */
    state: record,
    /** Names of values over COMM_INLINE, which `state` leaves out; `get_comm` has them. */
    omitted: z.array(z.string()),
    /** Some of the state is not kept (see COMM_STATE_MAX): send `{method: "request_state"}` to have the kernel tell it. */
    partial: z.boolean(),
  }),
)
export type CommView = z.output<typeof CommView>

/** A message that is no update of state: Jupyter's comm_msg. */
export const CommContent = lazily(() => z.object({ data: record, metadata: record, buffers: z.array(bytes) }))
export type CommContent = z.output<typeof CommContent>

type Path = readonly (string | number)[]

/** Puts buffers into a copy of `state`. Paths that lead nowhere are left out, as in ipywidgets. */
export function putBuffers(
  state: Readonly<Record<string, unknown>>,
  paths: unknown,
  buffers: readonly Uint8Array[],
): Record<string, unknown> {
  const copy: Record<string, unknown> = { ...state }
  if (!Array.isArray(paths)) return copy
  const copied = new Set<unknown>([copy])
  paths.forEach((path: unknown, i) => {
    const buffer = buffers[i]
    if (!isPath(path) || path.length === 0 || buffer === undefined) return
    let place: unknown = copy
    for (const step of path.slice(0, -1)) {
      let inner = member(place, step)
      if (typeof inner !== 'object' || inner === null || inner instanceof Uint8Array) return
      if (!copied.has(inner)) {
        inner = Array.isArray(inner) ? [...inner] : { ...inner }
        copied.add(inner)
        setMember(place, step, inner)
      }
      place = inner
    }
    const last = path.at(-1)
    if (last !== undefined) setMember(place, last, buffer)
  })
  return copy
}

/** Takes the bytes out of a copy of `state`: null in lists, absent in maps, as ipywidgets does it. Throws `invalid_argument` when it is nested too deep. */
export function takeBuffers(state: Readonly<Record<string, unknown>>): {
  state: Record<string, unknown>
  buffer_paths: (string | number)[][]
  buffers: Uint8Array[]
} {
  const buffer_paths: (string | number)[][] = []
  const buffers: Uint8Array[] = []
  const take = (value: unknown, path: (string | number)[]): unknown => {
    if (path.length > DEEPEST)
      throw new RoomdError('invalid_argument', `the state of a comm is nested deeper than ${DEEPEST} levels`)
    if (Array.isArray(value)) {
      return value.map((inner: unknown, i) => {
        if (!(inner instanceof Uint8Array)) return take(inner, [...path, i])
        buffer_paths.push([...path, i])
        buffers.push(inner)
        return null
      })
    }
    if (typeof value !== 'object' || value === null) return value
    const copy: Record<string, unknown> = {}
    for (const [key, inner] of Object.entries(value)) {
      if (inner instanceof Uint8Array) {
        buffer_paths.push([...path, key])
        buffers.push(inner)
      } else define(copy, key, take(inner, [...path, key]))
    }
    return copy
  }
  return { state: take(state, []) as Record<string, unknown>, buffer_paths, buffers }
}

const DEEPEST = 200

function isPath(path: unknown): path is Path {
  return Array.isArray(path) && path.every((step) => typeof step === 'string' || typeof step === 'number')
}

function member(place: unknown, step: string | number): unknown {
  if (Array.isArray(place)) return typeof step === 'number' ? place[step] : undefined
  if (typeof place !== 'object' || place === null || !Object.hasOwn(place, step)) return undefined
  return (place as Record<string, unknown>)[step]
}

function setMember(place: unknown, step: string | number, value: unknown): void {
  if (Array.isArray(place)) {
    if (typeof step === 'number' && step >= 0 && step <= place.length) place[step] = value
  } else if (typeof place === 'object' && place !== null) {
    define(place as Record<string, unknown>, String(step), value)
  }
}

/** A member of any name, `__proto__` too. */
function define(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true })
}
