/** Reads a stream by lines: everything so far, or the next line that matches. */
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { PATIENCE_MS, within } from './until.ts'

export class LineReader {
  /** Whole lines so far, without their ends. */
  readonly lines: string[] = []
  /** True when the stream has ended; an unfinished last line is then a line. */
  ended = false
  #taken = 0
  #rest = ''
  #waiting: Array<() => void> = []

  constructor(stream: Readable) {
    const decoder = new StringDecoder('utf8')
    stream.on('data', (piece: Buffer) => this.#add(decoder.write(piece)))
    const end = () => {
      if (this.ended) return
      this.#add(decoder.end())
      if (this.#rest !== '') this.lines.push(this.#rest)
      this.#rest = ''
      this.ended = true
      this.#wake()
    }
    stream.on('end', end)
    stream.on('close', end)
  }

  /** All text so far, the unfinished line included. */
  get text(): string {
    return [...this.lines, this.#rest].join('\n')
  }

  /** The next line not yet taken that matches; lines before it are taken too. Rejects when the stream ends without one. */
  async next(
    matches: RegExp | ((line: string) => boolean) = () => true,
    timeout = PATIENCE_MS,
  ): Promise<string> {
    const test = matches instanceof RegExp ? (line: string) => matches.test(line) : matches
    const find = async (): Promise<string> => {
      for (;;) {
        while (this.#taken < this.lines.length) {
          const line = this.lines[this.#taken++] ?? ''
          if (test(line)) return line
        }
        if (this.ended) throw new Error(`the stream ended before ${matches}; it said:\n${this.text}`)
        await new Promise<void>((resolve) => this.#waiting.push(resolve))
      }
    }
    return within(`a line that matches ${matches}`, find(), timeout)
  }

  #add(piece: string): void {
    const parts = (this.#rest + piece).split('\n')
    this.#rest = parts.pop() ?? ''
    if (parts.length === 0) return
    this.lines.push(...parts)
    this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resume of waiting) resume()
  }
}
