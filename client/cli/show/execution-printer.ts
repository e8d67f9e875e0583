/**
 * Prints the outputs of one execution in their order, as they come. Streams grow in place; any other output ends the stream line
 * before it. A display that is updated is printed again, if what a terminal shows of it is another.
 */
import { stripVTControlCharacters } from 'node:util'
import type { Output } from '../../../protocol/notebook.ts'
import type { Terminal } from '../terminal.ts'
import type { LiveScreen } from './live-screen.ts'
import { showBundle } from './mime.ts'
import { StreamText } from './stream-text.ts'

/** Reads the whole text of an output (of one mime type) that came shortened. */
export type ReadWhole = (index: number, mime?: string) => Promise<string>

export class ExecutionPrinter {
  readonly #screen: LiveScreen
  readonly #terminal: Terminal
  readonly #readWhole: ReadWhole
  #stream: { index: number; text: StreamText } | null = null
  /** What was printed of outputs that are no stream. */
  readonly #shown = new Map<number, string>()

  constructor(screen: LiveScreen, terminal: Terminal, readWhole: ReadWhole) {
    this.#screen = screen
    this.#terminal = terminal
    this.#readWhole = readWhole
  }

  /** A new output, or the replacement of one. */
  async output(index: number, output: Output): Promise<void> {
    if (output.output_type === 'stream') {
      const text = typeof output.text === 'string' ? output.text : await this.#readWhole(index)
      this.splice(index, 0, text)
      return
    }
    this.#endStream()
    const text = this.#clean(await this.#textOf(index, output))
    if (this.#shown.get(index) === text) return
    this.#shown.set(index, text)
    this.#screen.freshLine()
    this.#screen.write(text.endsWith('\n') || text === '' ? text : `${text}\n`)
  }

  /** Stream output `index` was cut to `from` UTF-16 units; `text` follows. */
  splice(index: number, from: number, text: string): void {
    if (this.#stream?.index !== index) {
      this.#endStream()
      this.#stream = { index, text: new StreamText(this.#screen) }
    }
    this.#stream?.text.splice(from, text)
  }

  /** The outputs were cleared by the code. What is on paper stays. */
  cleared(): void {
    this.#endStream()
    this.#shown.clear()
  }

  /** Nothing more comes. */
  finish(): void {
    this.#endStream()
    this.#screen.freshLine()
  }

  #endStream(): void {
    this.#stream?.text.finish()
    this.#stream = null
  }

  async #textOf(index: number, output: Exclude<Output, { output_type: 'stream' }>): Promise<string> {
    switch (output.output_type) {
      case 'error':
        return output.traceback.length > 0
          ? output.traceback.join('\n')
          : `${this.#terminal.paint('red', output.ename)}: ${output.evalue}`
      case 'display_data':
      case 'execute_result': {
        const { mime, text, besides } = showBundle(output.data)
        const whole = mime === null ? '' : (text ?? (await this.#readWhole(index, mime)))
        const rest = besides.length === 0 ? '' : this.#terminal.paint('dim', `[${besides.join(', ')}]`)
        return [whole, rest].filter((part) => part !== '').join('\n')
      }
    }
  }

  #clean(text: string): string {
    return this.#screen.interactive ? text : stripVTControlCharacters(text)
  }
}
