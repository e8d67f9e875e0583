/** Puts an entry into a TOML configuration: only the values that differ are written, everything else keeps its bytes. */
import { applyEdits, DamagedFile, type Edit, isTable, sameValue } from './damaged-file.ts'
import { parseToml, type TomlDocument, TomlScalar } from './toml.ts'

/**
 * `text` with the table `keys` holding the values of `entry` (strings, lists of strings, tables of strings); other keys of the
 * table stay. The same text when it does already. Throws DamagedFile when the text cannot be read or has something else there.
 */
export function setTomlEntry(
  text: string,
  keys: readonly string[],
  entry: Readonly<Record<string, unknown>>,
): string {
  const document = parseToml(text)
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const array = document.tables.find((table) => table.array && isPrefix(table.path, keys))
  if (array !== undefined)
    throw new DamagedFile(text, array.start, `${array.path.join('.')} is a list of tables`)
  // `mcp_servers.roomd = { … }`, or one further up.
  const inline = document.pairs.find((pair) => isPrefix(pair.path, keys))
  if (inline !== undefined) {
    if (!isTable(inline.value))
      throw new DamagedFile(text, inline.valueStart, `${inline.path.join('.')} is no table`)
    const wanted = merged(inline.value, keys.slice(inline.path.length), entry)
    if (sameValue(wanted, inline.value)) return text
    return applyEdits(text, [{ start: inline.valueStart, end: inline.valueEnd, text: render(wanted) }])
  }
  const edits: Edit[] = []
  const missing: Array<[string[], unknown]> = []
  for (const [name, value] of leaves(document, keys, entry)) {
    const pair = document.pairs.find((candidate) => sameValue(candidate.path, [...keys, ...name]))
    if (pair === undefined) missing.push([name, value])
    else if (!sameValue(pair.value, value)) {
      edits.push({ start: pair.valueStart, end: pair.valueEnd, text: render(value) })
    }
  }
  return applyEdits(text, [...edits, ...additions(text, document, keys, missing, newline)])
}

/** The entry's values by path; a table of its own, `[….env]` or dotted, is entered instead of replaced. */
function leaves(
  document: TomlDocument,
  keys: readonly string[],
  entry: Readonly<Record<string, unknown>>,
): Array<[string[], unknown]> {
  return Object.entries(entry).flatMap(([name, value]): Array<[string[], unknown]> => {
    const path = [...keys, name]
    const spread =
      isTable(value) &&
      (document.tables.some((table) => sameValue(table.path, path)) ||
        document.pairs.some((pair) => pair.path.length > path.length && isPrefix(path, pair.path)))
    return spread ? Object.entries(value).map(([key, inner]) => [[name, key], inner]) : [[[name], value]]
  })
}

function additions(
  text: string,
  document: TomlDocument,
  keys: readonly string[],
  missing: ReadonlyArray<[string[], unknown]>,
  newline: string,
): Edit[] {
  if (missing.length === 0) return []
  const byTable = new Map<number, string[]>()
  const dangling: string[] = []
  for (const [name, value] of missing) {
    const full = [...keys, ...name]
    // The deepest table that may hold it.
    const table = document.tables
      .map((candidate, index) => ({ ...candidate, index }))
      .filter(({ path, array }) => !array && path.length >= keys.length && isPrefix(path, full.slice(0, -1)))
      .sort((a, b) => b.path.length - a.path.length)[0]
    if (table === undefined) dangling.push(`${name.map(key).join('.')} = ${render(value)}`)
    else {
      const line = `${full.slice(table.path.length).map(key).join('.')} = ${render(value)}`
      byTable.set(table.index, [...(byTable.get(table.index) ?? []), line])
    }
  }
  const edits: Edit[] = []
  for (const [index, lines] of byTable) {
    const table = document.tables[index]
    if (table === undefined) continue
    const place = endOfLine(text, lastOfTable(document, index)?.valueEnd ?? table.headerEnd)
    edits.push({ start: place, end: place, text: lines.map((line) => `${newline}${line}`).join('') })
  }
  if (dangling.length > 0) edits.push(danglingEdit(text, document, keys, dangling, newline))
  return edits
}

/** Values with no table of theirs: beside dotted keys of the same entry, else a new table at the end. */
function danglingEdit(
  text: string,
  document: TomlDocument,
  keys: readonly string[],
  lines: readonly string[],
  newline: string,
): Edit {
  const sibling = document.pairs
    .filter((pair) => pair.path.length > keys.length && isPrefix(keys, pair.path))
    .at(-1)
  if (sibling !== undefined && sibling.inherited < keys.length) {
    const prefix = keys.slice(sibling.inherited).map(key).join('.')
    const place = endOfLine(text, sibling.valueEnd)
    return { start: place, end: place, text: lines.map((line) => `${newline}${prefix}.${line}`).join('') }
  }
  const gap = text === '' ? '' : text.endsWith('\n') ? newline : newline + newline
  const table = [`[${keys.map(key).join('.')}]`, ...lines].join(newline)
  return { start: text.length, end: text.length, text: `${gap}${table}${newline}` }
}

/** The last pair that stands under this header. */
function lastOfTable(document: TomlDocument, index: number): { valueEnd: number } | undefined {
  const table = document.tables[index]
  const next = document.tables[index + 1]
  if (table === undefined) return undefined
  return document.pairs
    .filter((pair) => pair.start > table.start && (next === undefined || pair.start < next.start))
    .at(-1)
}

function endOfLine(text: string, from: number): number {
  const end = /\r?\n|$/g
  end.lastIndex = from
  return end.exec(text)?.index ?? text.length
}

function merged(
  table: Readonly<Record<string, unknown>>,
  keys: readonly string[],
  entry: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const [first, ...rest] = keys
  if (first === undefined) {
    const result: Record<string, unknown> = { ...table }
    for (const [name, value] of Object.entries(entry)) {
      const before = result[name]
      result[name] = isTable(before) && isTable(value) ? { ...before, ...value } : value
    }
    return result
  }
  const inner = table[first]
  return { ...table, [first]: merged(isTable(inner) ? inner : {}, rest, entry) }
}

function isPrefix(prefix: readonly string[], path: readonly string[]): boolean {
  return prefix.length <= path.length && prefix.every((part, index) => part === path[index])
}

function key(name: string): string {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name)
}

function render(value: unknown): string {
  if (value instanceof TomlScalar) return value.text
  if (Array.isArray(value)) return `[${value.map(render).join(', ')}]`
  if (isTable(value)) {
    return `{ ${Object.entries(value)
      .map(([name, inner]) => `${key(name)} = ${render(inner)}`)
      .join(', ')} }`
  }
  // JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
  return JSON.stringify(value).replaceAll('\u007f', '\\u007f')
}
