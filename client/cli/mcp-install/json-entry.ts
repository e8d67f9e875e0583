/** Puts an entry into a JSON configuration: only the values that differ are written, everything else keeps its bytes. */
import { applyEdits, DamagedFile, type Edit, sameValue } from './damaged-file.ts'
import { type JsonNode, parseJson } from './json-with-comments.ts'

/**
 * `text` with `keys[0].keys[1]…` holding the values of `entry`; other keys of the entry stay. The same text when it does already.
 * Throws DamagedFile when the text cannot be read or has no object on the way.
 */
export function setJsonEntry(
  text: string,
  keys: readonly string[],
  entry: Readonly<Record<string, unknown>>,
): string {
  const style = styleOf(text)
  const root = parseJson(text)
  if (root === null) return `${render(nested(keys, entry), '', style)}${style.newline}`
  return applyEdits(text, editsFor(text, root, keys, entry, '', style))
}

interface Style {
  /** Of one level. */
  readonly indent: string
  readonly newline: string
}

function styleOf(text: string): Style {
  return {
    indent: /^([ \t]+)\S/m.exec(text)?.[1] ?? '  ',
    newline: text.includes('\r\n') ? '\r\n' : '\n',
  }
}

function editsFor(
  text: string,
  object: JsonNode,
  keys: readonly string[],
  entry: Readonly<Record<string, unknown>>,
  indent: string,
  style: Style,
): Edit[] {
  const { properties } = object
  if (properties === null) throw new DamagedFile(text, object.start, 'an object is expected here')
  const find = (key: string) => properties.findLast((property) => property.key === key)?.node
  const inner = indent + style.indent
  const [key, ...rest] = keys
  if (key !== undefined) {
    const next = find(key)
    if (next !== undefined) return editsFor(text, next, rest, entry, inner, style)
    return added(text, object, { [key]: nested(rest, entry) }, indent, style)
  }
  const edits: Edit[] = []
  const missing: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(entry)) {
    const present = find(name)
    if (present === undefined) missing[name] = value
    else if (!sameValue(present.value, value)) {
      edits.push({ start: present.start, end: present.end, text: render(value, inner, style) })
    }
  }
  return [...edits, ...added(text, object, missing, indent, style)]
}

/** New properties behind the ones that are there. */
function added(
  text: string,
  object: JsonNode,
  values: Readonly<Record<string, unknown>>,
  indent: string,
  style: Style,
): Edit[] {
  const names = Object.keys(values)
  if (names.length === 0) return []
  const inner = indent + style.indent
  const lines = names.map(
    (name) => `${style.newline}${inner}${JSON.stringify(name)}: ${render(values[name], inner, style)}`,
  )
  // Behind comments that follow the last property, before the line of the brace.
  const inside = text.slice(0, object.end - 1)
  const place = inside.trimEnd().length
  const ownLine = inside.slice(place).includes('\n')
  const last = object.properties?.at(-1)
  const comma =
    last !== undefined && !object.trailingComma
      ? [{ start: last.node.end, end: last.node.end, text: ',' }]
      : []
  const end = `${object.trailingComma ? ',' : ''}${ownLine ? '' : style.newline + indent}`
  return [...comma, { start: place, end: place, text: lines.join(',') + end }]
}

function nested(keys: readonly string[], value: unknown): unknown {
  return keys.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
}

function render(value: unknown, indent: string, style: Style): string {
  return JSON.stringify(value, null, style.indent).replaceAll('\n', style.newline + indent)
}
