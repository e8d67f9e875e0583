/**
 * Reads a REQUEST's envelope. The same rules as the schema `Request` in protocol/channels.ts (a test compares them), by hand:
 * this runs for every request, and most of a trivial request's time would be the schema's.
 */
import type { Request } from '../../protocol/channels.ts'
import { decode } from '../../protocol/codec.ts'

const MAX_METHOD = 100
const MAX_DEADLINE_MS = 7 * 86_400_000

export type ReadRequest =
  | { readonly ok: true; readonly request: Request }
  /** `id` is null when not even that could be read: then nothing can be answered. */
  | { readonly ok: false; readonly id: number | null; readonly reason: string }

export function readRequest(payload: Uint8Array): ReadRequest {
  let value: unknown
  try {
    value = decode(payload)
  } catch {
    return { ok: false, id: null, reason: 'a REQUEST is one MessagePack map' }
  }
  if (!isMap(value)) return { ok: false, id: null, reason: 'a REQUEST is one MessagePack map' }
  if (!isWhole(value.id) || value.id < 1) {
    return { ok: false, id: null, reason: 'a REQUEST has an id: a positive whole number' }
  }
  const fault = faultOf(value)
  if (fault) return { ok: false, id: value.id, reason: fault }
  return { ok: true, request: value as unknown as Request }
}

function faultOf(value: Record<string, unknown>): string | null {
  const { method, deadline_ms, mutation_id, watermark, expect } = value
  if (typeof method !== 'string' || method.length > MAX_METHOD) return 'method: expected a method name'
  if (
    deadline_ms !== undefined &&
    !(typeof deadline_ms === 'number' && deadline_ms > 0 && deadline_ms <= MAX_DEADLINE_MS)
  )
    return 'deadline_ms: expected milliseconds, more than 0 and at most 7 days'
  if (mutation_id !== undefined && !(isWhole(mutation_id) && mutation_id >= 1))
    return 'mutation_id: expected a positive whole number'
  if (watermark !== undefined && !(isWhole(watermark) && watermark >= 0))
    return 'watermark: expected a whole number, 0 or more'
  return expect === undefined ? null : faultOfExpect(expect)
}

function faultOfExpect(expect: unknown): string | null {
  if (!isMap(expect)) return 'expect: expected a map'
  for (const name of ['doc_seq', 'event_seq', 'activation_generation']) {
    if (expect[name] !== undefined && !isWhole(expect[name])) return `expect.${name}: expected a whole number`
  }
  return null
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
