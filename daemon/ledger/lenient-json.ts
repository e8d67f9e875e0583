/**
 * JSON as the reference's programs write it: a byte order mark, `NaN` and `Infinity`, keys that come twice (the last counts), lone
 * surrogates in escapes. Numbers that JSON does not have become `SpecialNumber`. What cannot be read throws, saying where.
 */

export class SpecialNumber {
  readonly text: 'NaN' | 'Infinity' | '-Infinity'

  constructor(text: 'NaN' | 'Infinity' | '-Infinity') {
    this.text = text
  }
}

export class UnreadableFile extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'UnreadableFile'
  }
}

/** Throws UnreadableFile for bytes that are no UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes)
  } catch {
    throw new UnreadableFile('it is not UTF-8')
  }
}

/** A string that is no key in files of the world stands for each special number while they are parsed. */
const MARK = '\u0000roomd-number:'

/** Throws UnreadableFile. */
export function parseLenient(text: string): unknown {
  const bare = text.startsWith('\ufeff') ? text.slice(1) : text
  try {
    return JSON.parse(bare)
  } catch (thrown) {
    const marked = withoutSpecialNumbers(bare)
    if (marked === bare) throw unreadable(thrown)
    try {
      return JSON.parse(marked, (_key, value) =>
        typeof value === 'string' && value.startsWith(MARK)
          ? new SpecialNumber(value.slice(MARK.length) as SpecialNumber['text'])
          : value,
      )
    } catch (again) {
      throw unreadable(again)
    }
  }
}

function withoutSpecialNumbers(text: string): string {
  return text.replace(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/gs, (token) =>
    token.startsWith('"') ? token : JSON.stringify(MARK + token),
  )
}

function unreadable(thrown: unknown): UnreadableFile {
  return new UnreadableFile(`it is not JSON: ${thrown instanceof Error ? thrown.message : String(thrown)}`)
}

export type JsonObject = { [key: string]: unknown }

export function isJsonObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof SpecialNumber)
  )
}
