/**
 * JSON text as nodes that know where they stand, so that a file can be changed in one place and stay as it is everywhere else.
 * A node looks into its text only when it is asked for its parts. The text is valid JSON (json-check.ts): nothing here checks.
 *
 * Offsets are UTF-16 units of the text, ends exclusive.
 */

export interface Member {
  readonly key: string
  /** Of the key's opening quote. */
  readonly start: number
  /** Of the value. */
  readonly end: number
  readonly value: JsonNode
}

export interface ScalarNode {
  readonly kind: 'string' | 'scalar'
  readonly start: number
  readonly end: number
}

export class ObjectNode {
  readonly kind = 'object'
  readonly start: number
  readonly end: number
  readonly #text: string
  #members: readonly Member[] | null = null

  constructor(text: string, start: number, end: number) {
    this.#text = text
    this.start = start
    this.end = end
  }

  get members(): readonly Member[] {
    this.#members ??= this.#read()
    return this.#members
  }

  /** The member that counts: of keys that occur twice the last. */
  member(key: string): Member | undefined {
    return this.members.findLast((member) => member.key === key)
  }

  #read(): Member[] {
    const text = this.#text
    const members: Member[] = []
    for (let at = skipSpace(text, this.start + 1); text[at] === '"'; ) {
      const start = at
      at = skipString(text, at)
      const key = stringAt(text, start, at)
      // Over the colon.
      const value = readNode(text, skipSpace(text, skipSpace(text, at) + 1))
      members.push({ key, start, end: value.end, value })
      at = nextPart(text, value.end)
    }
    return members
  }
}

export class ArrayNode {
  readonly kind = 'array'
  readonly start: number
  readonly end: number
  readonly #text: string
  #items: readonly JsonNode[] | null = null

  constructor(text: string, start: number, end: number) {
    this.#text = text
    this.start = start
    this.end = end
  }

  get items(): readonly JsonNode[] {
    this.#items ??= this.#read()
    return this.#items
  }

  #read(): JsonNode[] {
    const text = this.#text
    const items: JsonNode[] = []
    for (let at = skipSpace(text, this.start + 1); at < this.end - 1; ) {
      const item = readNode(text, at)
      items.push(item)
      at = nextPart(text, item.end)
    }
    return items
  }
}

export type JsonNode = ObjectNode | ArrayNode | ScalarNode

/** The node that begins at `start`, where no space is. */
export function readNode(text: string, start: number): JsonNode {
  switch (text[start]) {
    case '{':
      return new ObjectNode(text, start, skipNested(text, start))
    case '[':
      return new ArrayNode(text, start, skipNested(text, start))
    case '"':
      return { kind: 'string', start, end: skipString(text, start) }
    default: {
      scalar.lastIndex = start
      scalar.test(text)
      return { kind: 'scalar', start, end: scalar.lastIndex }
    }
  }
}

/** The value of a node. `lenient`: the text may hold NaN or Infinity, which JSON.parse refuses. */
export function jsonValue(text: string, node: JsonNode, lenient: boolean): unknown {
  if (!lenient || node.kind === 'string') return JSON.parse(text.slice(node.start, node.end))
  switch (node.kind) {
    case 'object': {
      const value: Record<string, unknown> = {}
      // As JSON.parse does it: `__proto__` is a key like any other.
      for (const member of node.members)
        Object.defineProperty(value, member.key, {
          value: jsonValue(text, member.value, true),
          enumerable: true,
          configurable: true,
          writable: true,
        })
      return value
    }
    case 'array':
      return node.items.map((item) => jsonValue(text, item, true))
    case 'scalar': {
      const word = text.slice(node.start, node.end)
      return /^(true|false|null)$/.test(word) ? JSON.parse(word) : Number(word)
    }
  }
}

export function skipSpace(text: string, at: number): number {
  let end = at
  for (;;) {
    const code = text.charCodeAt(end)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return end
    end++
  }
}

const scalar = /[^\s,\]}]+/y
const structure = /["{}[\]]/g

/** Behind the closing quote. Leaps from quote to quote: most of a notebook is long strings. */
function skipString(text: string, start: number): number {
  let end = start
  for (;;) {
    end = text.indexOf('"', end + 1)
    let slashes = 0
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes++
    if (slashes % 2 === 0) return end + 1
  }
}

/** Behind the bracket that closes the one at `start`. */
function skipNested(text: string, start: number): number {
  let depth = 0
  structure.lastIndex = start
  for (;;) {
    structure.test(text)
    const at = structure.lastIndex - 1
    switch (text[at]) {
      case '"':
        structure.lastIndex = skipString(text, at)
        break
      case '{':
      case '[':
        depth++
        break
      default:
        if (--depth === 0) return at + 1
    }
  }
}

/** Where the part behind a comma begins; the closing bracket where there is none. */
function nextPart(text: string, end: number): number {
  const at = skipSpace(text, end)
  return text[at] === ',' ? skipSpace(text, at + 1) : at
}

function stringAt(text: string, start: number, end: number): string {
  const inner = text.slice(start + 1, end - 1)
  return inner.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : inner
}
