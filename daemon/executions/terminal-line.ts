/** One line of a terminal: its text as it is told, and its characters when it is edited in place. Pure. */
import { type Attributes, afterLink, afterSgr, sequenceAt, transition } from './ansi.ts'

export interface Character {
  text: string
  readonly attributes: Attributes
}

export interface Line {
  text: string
  /** Attributes of a reader before and behind the line's text. */
  readonly start: Attributes
  end: Attributes
  /** Characters in it. */
  width: number
  /** Present when it was edited; `text` is then made from it at the end of `feed`. */
  characters: Character[] | null
  /** Text as last told; null: not yet. */
  told: string | null
}

export function emptyLine(start: Attributes): Line {
  return { text: '', start, end: start, width: 0, characters: null, told: null }
}

/** Length of what both begin with, never between the halves of a surrogate pair. */
export function commonPrefix(a: string, b: string): number {
  const most = Math.min(a.length, b.length)
  if (b.startsWith(a)) return a.length
  let n = 0
  while (n < most && a.charCodeAt(n) === b.charCodeAt(n)) n++
  const unit = n > 0 ? a.charCodeAt(n - 1) : 0
  return unit >= 0xd800 && unit <= 0xdbff ? n - 1 : n
}

const combining = /^(?:\p{M}|\u200d|[\ufe00-\ufe0f])$/u

export function isCombining(piece: string): boolean {
  return piece.charCodeAt(0) >= 0x300 && combining.test(piece)
}

/** The start of the character that unit `at` of `text` belongs to. */
export function characterStart(text: string, at: number): number {
  let start = at
  for (; start > 0; start--) {
    const unit = text.charCodeAt(start)
    if (unit >= 0xdc00 && unit <= 0xdfff) continue
    const point = text.codePointAt(start)
    if (point === undefined || !isCombining(String.fromCodePoint(point))) break
  }
  return start
}

export function splitCharacters(text: string): Iterable<string> {
  return /^[\x00-\x7f]*$/.test(text) ? text : [...text]
}

/** Columns that `text` adds to a line of `before` columns. */
export function widthOf(text: string, before: number): number {
  if (/^[\x00-\x7f]*$/.test(text)) return text.length
  let width = before
  for (const piece of text) if (width === 0 || !isCombining(piece)) width++
  return width - before
}

export function readCharacters(
  text: string,
  start: Attributes,
): { characters: Character[]; end: Attributes } {
  const characters: Character[] = []
  let attributes = start
  const put = (run: string) => {
    for (const piece of splitCharacters(run)) {
      const previous = characters.at(-1)
      if (previous && isCombining(piece)) previous.text += piece
      else characters.push({ text: piece, attributes })
    }
  }
  let from = 0
  for (let at = text.indexOf('\x1b'); at >= 0; at = text.indexOf('\x1b', at)) {
    const sequence = sequenceAt(text, at)
    if (sequence.kind === 'none' || sequence.kind === 'unfinished') {
      at++
      continue
    }
    put(text.slice(from, at))
    const raw = text.slice(at, sequence.end)
    if (sequence.kind === 'csi' && sequence.final === 'm')
      attributes = afterSgr(attributes, raw, sequence.parameters)
    else if (sequence.kind === 'link') attributes = afterLink(attributes, raw, sequence.open)
    from = sequence.end
    at = from
  }
  put(text.slice(from))
  return { characters, end: attributes }
}

export function writeCharacters(line: Line): string {
  let text = ''
  let attributes = line.start
  for (const character of line.characters ?? []) {
    if (character.attributes !== attributes) {
      text += transition(attributes, character.attributes)
      attributes = character.attributes
    }
    text += character.text
  }
  return text + transition(attributes, line.end)
}
