/**
 * Reads JSON with comments and trailing commas, as editors write their settings, and remembers where each value stands, so that a
 * change touches nothing else. Strict JSON is a part of it.
 */
import { DamagedFile } from './damaged-file.ts'

export interface JsonNode {
  readonly start: number
  readonly end: number
  readonly value: unknown
  /** Of an object, in order; a key may come twice, the last one counts. */
  readonly properties: readonly JsonProperty[] | null
  /** Of an object: whether a comma follows the last property. */
  readonly trailingComma: boolean
}

export interface JsonProperty {
  readonly key: string
  readonly start: number
  readonly node: JsonNode
}

/** Throws DamagedFile. An empty text has no node. */
export function parseJson(text: string): JsonNode | null {
  const reader = new Reader(text)
  reader.blank()
  if (reader.at === text.length) return null
  const node = reader.value()
  reader.blank()
  if (reader.at < text.length) throw new DamagedFile(text, reader.at, 'something follows the value')
  return node
}

const NESTING_MAX = 200

class Reader {
  at: number
  readonly #text: string
  #depth = 0

  constructor(text: string) {
    this.#text = text
    // A byte order mark.
    this.at = text.startsWith('\ufeff') ? 1 : 0
  }

  /** Whitespace and comments. */
  blank(): void {
    const pattern = /(?:\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/y
    pattern.lastIndex = this.at
    pattern.exec(this.#text)
    this.at = pattern.lastIndex
    if (this.#text.startsWith('/*', this.at)) throw this.#wrong('a comment has no end')
  }

  value(): JsonNode {
    const start = this.at
    const character = this.#text[start]
    if (character === '{') return this.#nested(() => this.#object())
    if (character === '[') return this.#nested(() => this.#array())
    const pattern = /"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true\b|false\b|null\b/y
    pattern.lastIndex = start
    const found = pattern.exec(this.#text)?.[0]
    if (found === undefined)
      throw this.#wrong(character === undefined ? 'the file ends too early' : 'a value is expected')
    this.at = pattern.lastIndex
    try {
      return this.#node(start, JSON.parse(found))
    } catch {
      throw new DamagedFile(this.#text, start, 'a value cannot be read')
    }
  }

  #nested(read: () => JsonNode): JsonNode {
    if (++this.#depth > NESTING_MAX) throw this.#wrong('nested too deeply')
    const node = read()
    this.#depth--
    return node
  }

  #object(): JsonNode {
    const start = this.at++
    const properties: JsonProperty[] = []
    let comma = true
    let trailingComma = false
    for (;;) {
      this.blank()
      if (this.#text[this.at] === '}') break
      if (!comma) throw this.#wrong("',' or '}' is expected")
      const keyStart = this.at
      if (this.#text[this.at] !== '"') throw this.#wrong('a key in double quotes is expected')
      const key = this.value().value as string
      this.blank()
      if (this.#text[this.at] !== ':') throw this.#wrong("':' is expected")
      this.at++
      this.blank()
      properties.push({ key, start: keyStart, node: this.value() })
      comma = trailingComma = this.#comma()
    }
    this.at++
    const value = Object.fromEntries(properties.map(({ key, node }) => [key, node.value]))
    return { ...this.#node(start, value), properties, trailingComma }
  }

  #array(): JsonNode {
    const start = this.at++
    const items: unknown[] = []
    let comma = true
    for (;;) {
      this.blank()
      if (this.#text[this.at] === ']') break
      if (!comma) throw this.#wrong("',' or ']' is expected")
      items.push(this.value().value)
      comma = this.#comma()
    }
    this.at++
    return this.#node(start, items)
  }

  #comma(): boolean {
    this.blank()
    if (this.#text[this.at] !== ',') return false
    this.at++
    return true
  }

  #node(start: number, value: unknown): JsonNode {
    return { start, end: this.at, value, properties: null, trailingComma: false }
  }

  #wrong(reason: string): DamagedFile {
    return new DamagedFile(this.#text, this.at, reason)
  }
}
