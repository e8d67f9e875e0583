/**
 * One change being made: its events in order, joined where nobody would see the steps between, and who has rows to write. Splices of
 * one text that follow each other become one; a replaced output takes the place of what it replaces; what a clear wipes away in
 * the same change is never told.
 */
import type { DurableEvent } from '../../protocol/events.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { Output } from '../../protocol/notebook.ts'

/** Events are cut at this many UTF-16 units of text, well below a frame's cap. */
const EVENT_UNITS = 1024 * 1024

export class Change {
  readonly #events: (DurableEvent | null)[] = []
  /** `execution:index` → place of the event that made or last replaced that output. */
  readonly #outputs = new Map<string, number>()
  /** `execution:index` → place of its last splice. */
  readonly #splices = new Map<string, number>()

  get events(): DurableEvent[] {
    return this.#events.filter((event) => event !== null)
  }

  push(event: DurableEvent): void {
    this.#events.push(event)
  }

  output(executionId: ExecutionId, index: number, output: Output): void {
    const key = `${executionId}:${index}`
    const event: DurableEvent = { type: 'output', execution_id: executionId, index, output }
    const place = this.#outputs.get(key)
    const splice = this.#splices.get(key)
    if (splice !== undefined) this.#events[splice] = null
    this.#splices.delete(key)
    if (place !== undefined) this.#events[place] = event
    else this.#outputs.set(key, this.#events.push(event) - 1)
  }

  splice(executionId: ExecutionId, index: number, from: number, text: string): void {
    const key = `${executionId}:${index}`
    if (this.#join(key, from, text)) return
    let at = from
    let rest = text
    do {
      const part = rest.slice(0, wholeUnits(rest, EVENT_UNITS))
      const place = this.#events.push({
        type: 'output_splice',
        execution_id: executionId,
        index,
        from: at,
        text: part,
      })
      this.#splices.set(key, place - 1)
      at += part.length
      rest = rest.slice(part.length)
    } while (rest !== '')
  }

  cleared(executionId: ExecutionId): void {
    this.#events.forEach((event, place) => {
      if (!event || !('execution_id' in event) || event.execution_id !== executionId) return
      if (event.type === 'output' || event.type === 'output_splice' || event.type === 'outputs_cleared')
        this.#events[place] = null
    })
    for (const map of [this.#outputs, this.#splices])
      for (const key of map.keys()) if (key.startsWith(executionId)) map.delete(key)
    this.#events.push({ type: 'outputs_cleared', execution_id: executionId })
  }

  /** Joins a splice with what was told of the same text before it in this change. */
  #join(key: string, from: number, text: string): boolean {
    const place = this.#splices.get(key)
    const last = place === undefined ? undefined : this.#events[place]
    if (place !== undefined && last?.type === 'output_splice') {
      const kept = from >= last.from ? last.text.slice(0, from - last.from) : ''
      if (kept.length + text.length > EVENT_UNITS) return false
      this.#events[place] = { ...last, from: Math.min(from, last.from), text: kept + text }
      return true
    }
    const made = this.#outputs.get(key)
    const event = made === undefined ? undefined : this.#events[made]
    if (made === undefined || event?.type !== 'output' || event.output.output_type !== 'stream') return false
    if (typeof event.output.text !== 'string' || from + text.length > EVENT_UNITS) return false
    const whole = event.output.text.slice(0, from) + text
    this.#events[made] = { ...event, output: { ...event.output, text: whole } }
    return true
  }
}

/** The largest length up to `most` that parts no surrogate pair of `text`; at least one whole character. */
export function wholeUnits(text: string, most: number): number {
  if (text.length <= most) return text.length
  const unit = text.charCodeAt(most - 1)
  if (unit < 0xd800 || unit > 0xdbff) return most
  return most > 1 ? most - 1 : most + 1
}
