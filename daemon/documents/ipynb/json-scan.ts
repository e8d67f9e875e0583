/**
 * Reads JSON text into nodes that know where they stand, so that a file can be changed in one place and stay as it is
 * everywhere else. Takes what Python's `json` takes: also NaN, Infinity and -Infinity. A byte-order mark is not part of it.
 *
 * Offsets are UTF-16 units of the text, ends exclusive.
 */

export interface ObjectNode {
  readonly kind: 'object'
  readonly start: number
  readonly end: number
  readonly members: readonly Member[]
}

export interface ArrayNode {
  readonly kind: 'array'
  readonly start: number
  readonly end: number
  readonly items: readonly JsonNode[]
}

export interface ScalarNode {
  readonly kind: 'string' | 'number' | 'literal'
  readonly start: number
  readonly end: number
}

export type JsonNode = ObjectNode | ArrayNode | ScalarNode

export interface Member {
  readonly key: string
  /** Of the key's opening quote. */
  readonly start: number
  /** Of the value. */
  readonly end: number
  readonly value: JsonNode
}

/** A place in the text that is no JSON. `at` like `cells[3].outputs[0].data`. */
export class JsonError extends Error {
  readonly at: string
  readonly reason: string
  readonly line: number
  constructor(at: string, reason: string, line: number) {
    super(`${at === '' ? 'the file' : at}, line ${line}: ${reason}`)
    this.at = at
    this.reason = reason
    this.line = line
  }
}

export interface Scanned {
  readonly root: JsonNode
  /** NaN or Infinity occur, which JSON.parse refuses. */
  readonly lenient: boolean
  /** Places of whole numbers that a double cannot hold, and of keys that occur twice; the first 100. */
  readonly odd: readonly { readonly at: string; readonly reason: string }[]
}

const DEEPEST = 500
const MOST_ODD = 100

/** Throws JsonError. */
export function scanJson(text: string, from = 0): Scanned {
  return new Scanner(text, from).document()
}

class Scanner {
  readonly #text: string
  #at: number
  readonly #path: (string | number)[] = []
  #lenient = false
  readonly #odd: { at: string; reason: string }[] = []

  constructor(text: string, from: number) {
    this.#text = text
    this.#at = from
  }

  document(): Scanned {
    this.#space()
    const root = this.#value()
    this.#space()
    if (this.#at < this.#text.length) this.#fail('text follows the end of the JSON value')
    return { root, lenient: this.#lenient, odd: this.#odd }
  }

  #value(): JsonNode {
    const code = this.#text.charCodeAt(this.#at)
    switch (code) {
      case 0x7b: // {
        return this.#object()
      case 0x5b: // [
        return this.#array()
      case 0x22: {
        const start = this.#at
        this.#skipString()
        return { kind: 'string', start, end: this.#at }
      }
      default:
        return code === 0x2d || (code >= 0x30 && code <= 0x39) ? this.#number() : this.#literal()
    }
  }

  #object(): ObjectNode {
    const start = this.#enter()
    const members: Member[] = []
    const keys = new Set<string>()
    if (this.#peek() === '}') this.#at++
    else {
      for (;;) {
        if (this.#peek() !== '"') this.#fail('expected a key in double quotes')
        const keyStart = this.#at
        this.#skipString()
        const key = this.#string(keyStart, this.#at)
        this.#path.push(key)
        if (keys.has(key)) this.#note('the key occurs twice; the last one counts')
        keys.add(key)
        if (this.#peek() !== ':') this.#fail('expected ":"')
        this.#at++
        this.#space()
        const value = this.#value()
        members.push({ key, start: keyStart, end: value.end, value })
        this.#path.pop()
        const next = this.#peek()
        this.#at++
        if (next === '}') break
        if (next !== ',') this.#failAt(this.#at - 1, 'expected "," or "}"')
        this.#space()
      }
    }
    return { kind: 'object', start, end: this.#at, members }
  }

  #array(): ArrayNode {
    const start = this.#enter()
    const items: JsonNode[] = []
    if (this.#peek() === ']') this.#at++
    else {
      for (;;) {
        this.#path.push(items.length)
        items.push(this.#value())
        this.#path.pop()
        const next = this.#peek()
        this.#at++
        if (next === ']') break
        if (next !== ',') this.#failAt(this.#at - 1, 'expected "," or "]"')
        this.#space()
      }
    }
    return { kind: 'array', start, end: this.#at, items }
  }

  #enter(): number {
    if (this.#path.length > DEEPEST) this.#fail(`nested deeper than ${DEEPEST} levels`)
    const start = this.#at
    this.#at++
    this.#space()
    return start
  }

  /** Leaps from quote to quote: most of a notebook is long strings. */
  #skipString(): void {
    const text = this.#text
    const start = this.#at
    let end = start
    for (;;) {
      end = text.indexOf('"', end + 1)
      if (end === -1) this.#fail('the text has no closing quote')
      let slashes = 0
      while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes++
      if (slashes % 2 === 0) break
    }
    this.#at = end + 1
  }

  #string(start: number, end: number): string {
    try {
      return JSON.parse(this.#text.slice(start, end)) as string
    } catch {
      return this.#failAt(start, 'the text holds an escape or a control character that JSON does not allow')
    }
  }

  #number(): ScalarNode {
    const start = this.#at
    const pattern = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y
    pattern.lastIndex = start
    const match = pattern.exec(this.#text)
    if (match === null) {
      if (this.#text.startsWith('-Infinity', start)) {
        this.#lenient = true
        this.#at += 9
        return { kind: 'number', start, end: this.#at }
      }
      return this.#fail('expected a number')
    }
    this.#at = start + match[0].length
    const whole = match[1] === undefined && match[2] === undefined
    if (whole && match[0].length > 15 && !Number.isSafeInteger(Number(match[0])))
      this.#note(
        `the whole number ${match[0]} is larger than a double can hold; its spelling in the file is kept`,
      )
    return { kind: 'number', start, end: this.#at }
  }

  #literal(): ScalarNode {
    const start = this.#at
    for (const word of ['true', 'false', 'null', 'NaN', 'Infinity']) {
      if (!this.#text.startsWith(word, start)) continue
      this.#at += word.length
      if (word === 'NaN' || word === 'Infinity') {
        this.#lenient = true
        return { kind: 'number', start, end: this.#at }
      }
      return { kind: 'literal', start, end: this.#at }
    }
    return this.#fail(start >= this.#text.length ? 'the file ends in the middle' : 'expected a value')
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
      this.#at++
    }
  }

  /** Next character that is no space; '' at the end. */
  #peek(): string {
    this.#space()
    return this.#text.charAt(this.#at)
  }

  #note(reason: string): void {
    if (this.#odd.length < MOST_ODD) this.#odd.push({ at: placeOf(this.#path), reason })
  }

  #fail(reason: string): never {
    return this.#failAt(
      this.#at,
      this.#at >= this.#text.length ? `${reason}, but the file ends here` : reason,
    )
  }

  #failAt(offset: number, reason: string): never {
    const line = this.#text.slice(0, offset).split('\n').length
    throw new JsonError(placeOf(this.#path), reason, line)
  }
}

/** `cells[3].outputs[0].data`; keys that are no plain words are quoted. */
export function placeOf(path: readonly (string | number)[]): string {
  let place = ''
  for (const step of path) {
    if (typeof step === 'number') place += `[${step}]`
    else if (/^[A-Za-z_]\w*$/.test(step)) place += place === '' ? step : `.${step}`
    else place += `[${JSON.stringify(step)}]`
  }
  return place
}

/** The value of a node. `lenient`: the text may hold NaN or Infinity. */
export function jsonValue(text: string, node: JsonNode, lenient: boolean): unknown {
  if (!lenient) return JSON.parse(text.slice(node.start, node.end))
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
    case 'number':
      return Number(text.slice(node.start, node.end))
    case 'string':
    case 'literal':
      return JSON.parse(text.slice(node.start, node.end))
  }
}

/** The member that counts: of keys that occur twice the last. */
export function memberOf(node: ObjectNode, key: string): Member | undefined {
  return node.members.findLast((member) => member.key === key)
}
