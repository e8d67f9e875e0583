/**
 * Checks JSON text and names the place where it is none. Takes what Python's `json` takes: also NaN, Infinity and -Infinity.
 * JSON.parse is several times faster but names no place and refuses those; so this runs only where JSON.parse failed, or where
 * the text may hold something to warn about.
 */

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

export interface Checked {
  /** NaN or Infinity occur, which JSON.parse refuses. */
  readonly lenient: boolean
  /** Places of whole numbers that a double cannot hold, and of keys that occur twice; the first 100. */
  readonly odd: readonly { readonly at: string; readonly reason: string }[]
}

const DEEPEST = 500
const MOST_ODD = 100

/** Throws JsonError. A byte-order mark is not part of the JSON: begin behind it. */
export function checkJson(text: string, from: number): Checked {
  return new Checker(text, from).document()
}

class Checker {
  readonly #text: string
  #at: number
  readonly #path: (string | number)[] = []
  #lenient = false
  readonly #odd: { at: string; reason: string }[] = []

  constructor(text: string, from: number) {
    this.#text = text
    this.#at = from
  }

  document(): Checked {
    this.#space()
    this.#value()
    this.#space()
    if (this.#at < this.#text.length) this.#fail('text follows the end of the JSON value')
    return { lenient: this.#lenient, odd: this.#odd }
  }

  #value(): void {
    const char = this.#text.charAt(this.#at)
    if (char === '{') this.#object()
    else if (char === '[') this.#array()
    else if (char === '"') {
      const start = this.#at
      this.#skipString()
      this.#string(start, this.#at)
    } else if (char === '-' || (char >= '0' && char <= '9')) this.#number()
    else this.#literal()
  }

  #object(): void {
    this.#enter()
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
        this.#value()
        this.#path.pop()
        const next = this.#peek()
        this.#at++
        if (next === '}') break
        if (next !== ',') this.#failAt(this.#at - 1, 'expected "," or "}"')
        this.#space()
      }
    }
  }

  #array(): void {
    this.#enter()
    let index = 0
    if (this.#peek() === ']') this.#at++
    else {
      for (;;) {
        this.#path.push(index++)
        this.#value()
        this.#path.pop()
        const next = this.#peek()
        this.#at++
        if (next === ']') break
        if (next !== ',') this.#failAt(this.#at - 1, 'expected "," or "]"')
        this.#space()
      }
    }
  }

  #enter(): void {
    if (this.#path.length > DEEPEST) this.#fail(`nested deeper than ${DEEPEST} levels`)
    this.#at++
    this.#space()
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

  #number(): void {
    const start = this.#at
    const pattern = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y
    pattern.lastIndex = start
    const match = pattern.exec(this.#text)
    if (match === null) {
      if (this.#text.startsWith('-Infinity', start)) {
        this.#lenient = true
        this.#at += 9
        return
      }
      this.#fail('expected a number')
    }
    this.#at = start + match[0].length
    const whole = match[1] === undefined && match[2] === undefined
    if (whole && match[0].length > 15 && !Number.isSafeInteger(Number(match[0])))
      this.#note(
        `the whole number ${match[0]} is larger than a double can hold; its spelling in the file is kept`,
      )
  }

  #literal(): void {
    const start = this.#at
    for (const word of ['true', 'false', 'null', 'NaN', 'Infinity']) {
      if (!this.#text.startsWith(word, start)) continue
      this.#at += word.length
      if (word === 'NaN' || word === 'Infinity') this.#lenient = true
      return
    }
    this.#fail(start >= this.#text.length ? 'the file ends in the middle' : 'expected a value')
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
