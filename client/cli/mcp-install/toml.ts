/**
 * Reads TOML 1.0 as far as to know what stands where: tables, keys with their full paths, values. Remembers places, so that a
 * change touches nothing else. Values that are neither strings, arrays nor tables are checked by their form and kept as text.
 */
import { DamagedFile, isTable } from './damaged-file.ts'

export interface TomlTable {
  readonly path: readonly string[]
  /** `[[…]]`. */
  readonly array: boolean
  /** Where its header's line begins, and behind what it ends. */
  readonly start: number
  readonly headerEnd: number
}

export interface TomlPair {
  /** The table's path and the key's own. */
  readonly path: readonly string[]
  /** How many of the path's parts the table gives. */
  readonly inherited: number
  readonly start: number
  readonly valueStart: number
  readonly valueEnd: number
  readonly value: unknown
}

export interface TomlDocument {
  readonly tables: readonly TomlTable[]
  readonly pairs: readonly TomlPair[]
}

/** A number, date or time, as it is written. */
export class TomlScalar {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** Throws DamagedFile. */
export function parseToml(text: string): TomlDocument {
  return new Reader(text).document()
}

const NESTING_MAX = 100
const bareKey = /[A-Za-z0-9_-]+/y
const scalar =
  /(?:true|false|[+-]?(?:inf|nan)|\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})?)?|\d{2}:\d{2}:\d{2}(?:\.\d+)?|0x[0-9A-Fa-f_]+|0o[0-7_]+|0b[01_]+|[+-]?\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d[\d_]*)?)(?![\w.:+-])/y

class Reader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
    if (text.startsWith('\ufeff')) this.#at = 1
  }

  document(): TomlDocument {
    const tables: TomlTable[] = []
    const pairs: TomlPair[] = []
    const headers = new Set<string>()
    const keys = new Set<string>()
    let table: readonly string[] = []
    for (;;) {
      this.#blankLines()
      if (this.#at >= this.#text.length) return { tables, pairs }
      const start = this.#at
      if (this.#text[start] === '[') {
        const found = this.#header(start)
        const name = JSON.stringify(found.path)
        if (!found.array && headers.has(name)) {
          throw new DamagedFile(this.#text, start, `the table ${found.path.join('.')} is there twice`)
        }
        headers.add(name)
        // The keys of another element of an array of tables are other keys.
        if (found.array) keys.clear()
        table = found.path
        tables.push(found)
      } else {
        const pair = this.#pair(table)
        const name = JSON.stringify(pair.path)
        if (keys.has(name))
          throw new DamagedFile(this.#text, start, `the key ${pair.path.join('.')} is there twice`)
        keys.add(name)
        pairs.push(pair)
      }
      this.#endOfLine()
    }
  }

  #header(start: number): TomlTable {
    const array = this.#text.startsWith('[[', this.#at)
    this.#at += array ? 2 : 1
    const path = this.#key()
    this.#expect(array ? ']]' : ']')
    return { path, array, start, headerEnd: this.#at }
  }

  #pair(table: readonly string[]): TomlPair {
    const start = this.#at
    const key = this.#key()
    this.#expect('=')
    this.#spaces()
    const valueStart = this.#at
    const value = this.#value()
    return { path: [...table, ...key], inherited: table.length, start, valueStart, valueEnd: this.#at, value }
  }

  #key(): string[] {
    const path: string[] = []
    do {
      this.#spaces()
      const quote = this.#text[this.#at]
      if (quote === '"' || quote === "'") path.push(this.#string(quote))
      else path.push(this.#match(bareKey) ?? this.#wrong('a key is expected'))
      this.#spaces()
    } while (this.#take('.'))
    return path
  }

  #value(): unknown {
    const character = this.#text[this.#at]
    switch (character) {
      case '"':
      case "'":
        return this.#text.startsWith(character.repeat(3), this.#at)
          ? this.#longString(character)
          : this.#string(character)
      case '[':
        return this.#nested(() => this.#array())
      case '{':
        return this.#nested(() => this.#inlineTable())
      default: {
        const text = this.#match(scalar) ?? this.#wrong('a value is expected')
        if (text === 'true' || text === 'false') return text === 'true'
        return new TomlScalar(text)
      }
    }
  }

  #nested<T>(read: () => T): T {
    if (++this.#depth > NESTING_MAX) this.#wrong('nested too deeply')
    const value = read()
    this.#depth--
    return value
  }

  #array(): unknown[] {
    this.#at++
    const items: unknown[] = []
    for (;;) {
      this.#blankLines()
      if (this.#take(']')) return items
      items.push(this.#value())
      this.#blankLines()
      if (this.#take(',')) continue
      this.#expect(']')
      return items
    }
  }

  #inlineTable(): Record<string, unknown> {
    this.#at++
    // Without a prototype, so that no key of the file means something.
    const table: Record<string, unknown> = Object.create(null)
    this.#spaces()
    if (this.#take('}')) return table
    for (;;) {
      const { path, value } = this.#pair([])
      let place = table
      for (const part of path.slice(0, -1)) {
        const next = place[part] ?? Object.create(null)
        if (!isTable(next)) this.#wrong(`${part} is no table`)
        place[part] = next
        place = next
      }
      place[path.at(-1) ?? ''] = value
      this.#spaces()
      if (this.#take(',')) continue
      this.#expect('}')
      return table
    }
  }

  #string(quote: '"' | "'"): string {
    const pattern = quote === '"' ? /"((?:[^"\\\n]|\\.)*)"/y : /'([^'\n]*)'/y
    const start = this.#at
    const found = this.#match(pattern) ?? this.#wrong('a string has no end on its line')
    const inside = found.slice(1, -1)
    return quote === "'" ? inside : this.#unescape(inside, start)
  }

  #longString(quote: '"' | "'"): string {
    const pattern =
      quote === '"' ? /"""((?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*)"{3,5}/y : /'''((?:[^']|'{1,2}(?!'))*)'{3,5}/y
    const start = this.#at
    const found = this.#match(pattern) ?? this.#wrong('a string has no end')
    const inside = found.slice(3, -3).replace(/^\r?\n/, '')
    return quote === "'" ? inside : this.#unescape(inside.replace(/\\[ \t]*\r?\n\s*/g, ''), start)
  }

  #unescape(text: string, start: number): string {
    const short: Record<string, string> = {
      b: '\b',
      t: '\t',
      n: '\n',
      f: '\f',
      r: '\r',
      '"': '"',
      '\\': '\\',
    }
    return text.replace(/\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)/gs, (_all, code: string) => {
      if (code.length > 1) return String.fromCodePoint(Number.parseInt(code.slice(1), 16))
      const known = short[code]
      if (known === undefined) throw new DamagedFile(this.#text, start, `\\${code} is no escape of TOML`)
      return known
    })
  }

  #spaces(): void {
    this.#match(/[ \t]*/y)
  }

  /** Whitespace, ends of lines and comments. */
  #blankLines(): void {
    this.#match(/(?:\s+|#[^\n]*)*/y)
  }

  #endOfLine(): void {
    if (this.#match(/[ \t]*(?:#[^\n]*)?(?:\r?\n|$)/y) === null) this.#wrong('the end of the line is expected')
  }

  #expect(token: string): void {
    this.#spaces()
    if (!this.#take(token)) this.#wrong(`'${token}' is expected`)
  }

  #take(token: string): boolean {
    if (!this.#text.startsWith(token, this.#at)) return false
    this.#at += token.length
    return true
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined) return null
    this.#at += found.length
    return found
  }

  #wrong(reason: string): never {
    throw new DamagedFile(this.#text, this.#at, reason)
  }
}
