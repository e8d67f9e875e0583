/**
 * Writes a changed value over an old one so that what is equal keeps its own text: key order, escapes, spelling of numbers,
 * spaces, and members that nobody here knows.
 */
import { isDeepStrictEqual } from 'node:util'
import { type JsonNode, jsonValue, type ObjectNode } from './json-nodes.ts'
import { deeper, isSorted, type JsonStyle, wrap, writeJson, writeString } from './json-style.ts'
import type { LineStarts } from './line-starts.ts'

export interface Source {
  readonly text: string
  readonly lenient: boolean
  readonly style: JsonStyle
  readonly lines: LineStarts
}

/** An entry of a sequence (array items, object members): its text, and its place in the old sequence if it was there. */
export interface Entry {
  readonly old: number | null
  readonly text: string
}

/** Text of `value` in the place of `node`. Equal parts keep their text. */
export function spliceValue(source: Source, node: JsonNode, value: unknown): string {
  const { text, lenient } = source
  if (isDeepStrictEqual(jsonValue(text, node, lenient), value)) return text.slice(node.start, node.end)
  if (node.kind === 'object' && isPlainObject(value)) {
    const members = new Map<string, string | null>()
    for (const { key } of node.members) if (!(key in value)) members.set(key, null)
    for (const [key, part] of Object.entries(value)) {
      if (part === undefined) continue
      const old = node.member(key)
      members.set(key, old ? spliceValue(source, old.value, part) : writeMember(source, node, part))
    }
    return spliceMembers(source, node, members)
  }
  if (node.kind === 'array' && Array.isArray(value)) return spliceArray(source, node, value)
  return writeJson(value, source.style, marginAt(source, node.start), isInline(source, node))
}

/**
 * Text of an object in which the given members have a new value text, or are gone (null); others stay. A member whose old text
 * is given stays as it is. New members go where the order of keys wants them, else to the end.
 */
export function spliceMembers(
  source: Source,
  node: ObjectNode,
  changed: ReadonlyMap<string, string | null>,
): string {
  const { text, style } = source
  const keys = node.members.map((member) => member.key)
  const entries: (Entry & { key: string })[] = []
  node.members.forEach((member, index) => {
    const counts = node.member(member.key) === member
    const value = changed.get(member.key)
    if (value === null) return
    const own = text.slice(member.start, member.end)
    const head = text.slice(member.start, member.value.start)
    entries.push({ key: member.key, old: index, text: value === undefined || !counts ? own : head + value })
  })
  const sorted = keys.length > 1 ? isSorted(keys) : style.sorted
  for (const [key, value] of changed) {
    if (value === null || keys.includes(key)) continue
    const entry = { key, old: null, text: writeString(key, style) + style.colon + value }
    const at = sorted ? entries.findIndex((other) => other.key > key) : -1
    entries.splice(at === -1 ? entries.length : at, 0, entry)
  }
  return spliceSequence(source, node, entries)
}

/** Text of a new member's value, as deep as its object's members are. */
export function writeMember(source: Source, node: ObjectNode, value: unknown): string {
  return writeJson(value, source.style, innerMargin(source, node), isInline(source, node))
}

/** Items that are equal keep their text wherever they moved to. */
function spliceArray(source: Source, node: JsonNode & { kind: 'array' }, value: readonly unknown[]): string {
  const old = node.items.map((item) => jsonValue(source.text, item, source.lenient))
  const margin = innerMargin(source, node)
  const inline = isInline(source, node)
  let searched = 0
  const entries = value.map((item, index): Entry => {
    let found = -1
    for (let i = searched; i < old.length && found < 0; i++) if (isDeepStrictEqual(old[i], item)) found = i
    const place = node.items[found]
    if (place) {
      searched = found + 1
      return { old: found, text: source.text.slice(place.start, place.end) }
    }
    const before = node.items[index]
    if (before && value.length === old.length) return { old: index, text: spliceValue(source, before, item) }
    return { old: null, text: writeJson(item, source.style, margin, inline) }
  })
  return spliceSequence(source, node, entries)
}

/** Text of an array or object made of entries; spaces between entries that were neighbours stay. */
export function spliceSequence(
  source: Source,
  node: JsonNode & { kind: 'array' | 'object' },
  entries: readonly Entry[],
): string {
  const { text, style } = source
  const parts = node.kind === 'array' ? node.items : node.members
  const open = text.charAt(node.start)
  const close = text.charAt(node.end - 1)
  if (entries.length === 0) return parts.length === 0 ? text.slice(node.start, node.end) : open + close
  const first = parts[0]
  const last = parts.at(-1)
  if (first === undefined || last === undefined)
    return wrap(
      open,
      close,
      entries.map((entry) => entry.text),
      style,
      marginAt(source, node.start),
    )
  const head = text.slice(node.start, first.start)
  const second = parts[1]
  const usual = second ? text.slice(first.end, second.start) : usualSeparator(head, style)
  let written = head
  entries.forEach((entry, index) => {
    const before = entries[index - 1]
    if (before) {
      const from = before.old === null ? undefined : parts[before.old]
      const to = entry.old === null ? undefined : parts[entry.old]
      const neighbours = from && to && entry.old === (before.old ?? 0) + 1
      written += neighbours ? text.slice(from.end, to.start) : usual
    }
    written += entry.text
  })
  return written + text.slice(last.end, node.end)
}

/** From the space behind the opening bracket: `[ a` has the same before each item. */
function usualSeparator(head: string, style: JsonStyle): string {
  const space = head.slice(1)
  return space === '' ? style.comma : `,${space}`
}

/** Indentation of the line in which an offset lies. */
export function marginAt({ text, lines }: Source, offset: number): string {
  const line = lines.before(offset)
  return /^[ \t]*/.exec(text.slice(line, offset))?.[0] ?? ''
}

/** Indentation of what stands inside a node: that of its first part where it has one. */
export function innerMargin(source: Source, node: JsonNode & { kind: 'array' | 'object' }): string {
  const first = node.kind === 'array' ? node.items[0] : node.members[0]
  if (first && source.text.slice(node.start, first.start).includes('\n')) return marginAt(source, first.start)
  return deeper(marginAt(source, node.start), source.style)
}

/** A list or object with content that stands on one line in an indented file stays on one line. */
export function isInline(source: Source, node: JsonNode): boolean {
  if (node.kind !== 'array' && node.kind !== 'object') return false
  const filled = node.kind === 'array' ? node.items.length > 0 : node.members.length > 0
  return filled && !source.text.slice(node.start, node.end).includes('\n')
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
