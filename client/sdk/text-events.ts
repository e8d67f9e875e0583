/**
 * Reads by hand the event that comes most: edits that set texts. It is what the schema would make of it (a test compares them), in a
 * fraction of the time: the schema tries three kinds for each step of each text. null: it is another event, or not exactly this one.
 */
import type { EventEnvelope } from '../../protocol/events.ts'
import { isCellId } from '../../protocol/ids.ts'

export function readTextEvent(value: unknown): EventEnvelope | null {
  if (!isMap(value) || count(value) !== 2 || typeof value.at !== 'number' || !Number.isFinite(value.at))
    return null
  const { event } = value
  if (!isMap(event) || event.type !== 'cells') return null
  const { doc_seq, by, delta, changes, parts } = event
  if (count(event) !== (parts === undefined ? 5 : 6)) return null
  if (!isWhole(doc_seq) || typeof by !== 'string' || !isEmptyList(delta) || !Array.isArray(changes))
    return null
  if (parts !== undefined && !isParts(parts)) return null
  for (const change of changes) if (!isTextChange(change)) return null
  return value as EventEnvelope
}

function isParts(parts: unknown): boolean {
  if (!Array.isArray(parts) || parts.length < 2) return false
  for (const part of parts) if (!isWhole(part) || part < 1) return false
  return true
}

function isTextChange(change: unknown): boolean {
  if (!isMap(change) || count(change) !== 2) return false
  const { cell_id, source } = change
  if (!isCellId(cell_id) || !Array.isArray(source)) return false
  for (const step of source) if (!isStep(step)) return false
  return true
}

function isStep(step: unknown): boolean {
  if (!isMap(step) || count(step) !== 1) return false
  const length = step.retain ?? step.delete
  if (length !== undefined) return isWhole(length) && length > 0
  return typeof step.insert === 'string'
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)
}

function count(value: Record<string, unknown>): number {
  let members = 0
  for (const _ in value) members++
  return members
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value)
}
