/** `complete_request`: names, properties, module names and paths. */
import { readdirSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { types } from 'node:util'
import { nameBefore, valueAt } from './expression-at.ts'
import { hidden } from './hidden.ts'
import { toCodePoints, toUnits } from './text-offset.ts'
import type { Json } from './wire.ts'

const keywords =
  'async await break case catch class const continue debugger default delete do else enum export extends false finally for function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while with yield'.split(
    ' ',
  )

interface Match {
  readonly text: string
  readonly type: string
}

/** The content of `complete_reply`; cursors count code points, as the protocol wants. */
export function complete(code: string, cursor: number): Json {
  const offset = toUnits(code, cursor)
  const { start, matches } = moduleMatches(code, offset) ?? nameMatches(code, offset)
  const cursorStart = toCodePoints(code, start)
  const typed = matches.map(({ text, type }) => ({ text, type, start: cursorStart, end: cursor }))
  return {
    status: 'ok',
    matches: matches.map(({ text }) => text),
    cursor_start: cursorStart,
    cursor_end: cursor,
    metadata: { _jupyter_types_experimental: typed },
  }
}

interface Matches {
  readonly start: number
  readonly matches: Match[]
}

function nameMatches(code: string, offset: number): Matches {
  const name = nameBefore(code, offset)
  if (!name) return { start: offset, matches: [] }
  const { path, last, start } = name
  const found: Match[] = []
  if (path.length === 0) {
    if (last === '') return { start, matches: [] }
    found.push(...propertiesOf(globalThis))
    for (const text of keywords) found.push({ text, type: 'keyword' })
    for (const text of declaredIn(code, offset)) found.push({ text, type: 'instance' })
  } else {
    const target = valueAt(path)
    if (target.found && target.value !== null && target.value !== undefined)
      found.push(...propertiesOf(target.value))
  }
  return { start, matches: choose(found, last) }
}

/** Those that begin with what was typed, else those that do in another case; each once, sorted. */
function choose(found: Match[], prefix: string): Match[] {
  const unique = [...new Map(found.map((match) => [match.text, match])).values()]
  const lower = prefix.toLowerCase()
  const exact = unique.filter(({ text }) => text.startsWith(prefix))
  const chosen = exact.length > 0 ? exact : unique.filter(({ text }) => text.toLowerCase().startsWith(lower))
  return chosen
    .filter(({ text }) => text !== hidden && (prefix.startsWith('_') || !text.startsWith('__')))
    .sort((a, b) => (a.text < b.text ? -1 : 1))
}

function propertiesOf(value: unknown): Match[] {
  const found: Match[] = []
  for (let object: unknown = Object(value); object !== null; object = Object.getPrototypeOf(object)) {
    if (types.isProxy(object)) break
    const isRoot = object === Object.prototype && value === globalThis
    if (isRoot) break
    for (const [text, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(object))) {
      if (/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(text))
        found.push({ text, type: typeName(descriptor.value) })
    }
  }
  return found
}

function typeName(value: unknown): string {
  if (typeof value !== 'function') return 'instance'
  return /^class\b/.test(Function.prototype.toString.call(value)) ? 'class' : 'function'
}

/** Names that the code around declares, although it has not run. */
function declaredIn(code: string, offset: number): string[] {
  const names: string[] = []
  const declarations =
    /\b(?:let|const|var|function\*?|class|import|interface|type|enum)\s+([\p{ID_Start}$_][\p{ID_Continue}$]*)/gu
  for (const match of code.matchAll(declarations)) {
    const name = match[1]
    // Not the one being typed.
    if (name !== undefined && match.index + match[0].length !== offset) names.push(name)
  }
  return names
}

const moduleString = /(?:\brequire\s*\(\s*|\bimport\s*\(\s*|\bfrom\s+|\bimport\s+)(["'])([^"'\n]*)$/

function moduleMatches(code: string, offset: number): Matches | undefined {
  const typed = moduleString.exec(code.slice(0, offset))?.[2]
  if (typed === undefined) return undefined
  const start = offset - typed.length
  const names = /^\.{0,2}\//.test(typed) ? paths(typed) : packages()
  const matches = names.filter((name) => name.startsWith(typed)).map((text) => ({ text, type: 'module' }))
  return { start, matches }
}

function paths(typed: string): string[] {
  const folder = typed.slice(0, typed.lastIndexOf('/') + 1)
  return list(resolve(folder)).map((name) => folder + name)
}

function packages(): string[] {
  const names = builtinModules
    .filter((name) => !name.startsWith('_'))
    .flatMap((name) => [name, `node:${name}`])
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    for (const name of list(join(folder, 'node_modules'))) {
      if (name.startsWith('@')) {
        names.push(...list(join(folder, 'node_modules', name)).map((inner) => `${name}${inner}`))
      } else names.push(name.replace(/\/$/, ''))
    }
    if (dirname(folder) === folder) break
  }
  return [...new Set(names)].sort()
}

/** Folders end in a slash. */
function list(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => !entry.name.startsWith('.'))
      .map((entry) => (entry.isDirectory() || entry.isSymbolicLink() ? `${entry.name}/` : entry.name))
  } catch {
    // No such folder: nothing to offer.
    return []
  }
}
