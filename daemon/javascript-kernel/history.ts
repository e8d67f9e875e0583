/** What was executed, for `history_request`. One session, in memory. */
import type { Json } from './wire.ts'

const session = 1

interface Entry {
  readonly line: number
  readonly input: string
  output: string | null
}

export class History {
  readonly #entries: Entry[] = []

  add(line: number, input: string): void {
    this.#entries.push({ line, input, output: null })
  }

  /** The result that a line showed. */
  setOutput(line: number, output: string): void {
    const entry = this.#entries.findLast((candidate) => candidate.line === line)
    if (entry) entry.output = output
  }

  /** The content of `history_reply`: `[session, line, input]`, or `[session, line, [input, output]]` with `output`. */
  reply(request: Json): Json {
    const history = this.#select(request).map(({ line, input, output }) => [
      session,
      line,
      request.output === true ? [input, output] : input,
    ])
    return { status: 'ok', history }
  }

  #select(request: Json): Entry[] {
    switch (request.hist_access_type) {
      case 'range':
        return this.#range(request)
      case 'search':
        return this.#search(request)
      default:
        return last(this.#entries, request.n)
    }
  }

  #range(request: Json): Entry[] {
    // 0 is the current session, negative ones are earlier, which this kernel does not keep.
    if (request.session !== undefined && request.session !== 0 && request.session !== session) return []
    const start = typeof request.start === 'number' ? request.start : 1
    const stop = typeof request.stop === 'number' ? request.stop : Number.POSITIVE_INFINITY
    return this.#entries.filter(({ line }) => line >= start && line < stop)
  }

  #search(request: Json): Entry[] {
    const pattern = globPattern(typeof request.pattern === 'string' ? request.pattern : '*')
    let found = this.#entries.filter(({ input }) => pattern.test(input))
    if (request.unique === true) {
      const newest = new Map(found.map((entry) => [entry.input, entry]))
      found = found.filter((entry) => newest.get(entry.input) === entry)
    }
    return last(found, request.n)
  }
}

function last(entries: Entry[], n: unknown): Entry[] {
  return typeof n === 'number' && n >= 0 ? entries.slice(Math.max(0, entries.length - n)) : entries
}

/** `*` and `?` as in file names. */
function globPattern(glob: string): RegExp {
  const escaped = glob
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${escaped}$`, 's')
}
