/**
 * Prints the outputs of one execution in their order, as they come. Streams grow in place; any other output ends the stream line
 * before it.
 */
import { stripVTControlCharacters } from 'node:util'
import type { MimeBundle, Output } from '../../../protocol/notebook.ts'
import type { Terminal } from '../terminal.ts'
import type { LiveScreen } from './live-screen.ts'
import { showBundle } from './mime.ts'
import { StreamText } from './stream-text.ts'

/** Reads a value that is kept as a blob. */
export type ReadBlob = (blob: string) => Promise<Uint8Array>

export class ExecutionPrinter {
  readonly #screen: LiveScreen
  readonly #terminal: Terminal
  readonly #readBlob: ReadBlob
  #stream: { name: string; text: StreamText } | null = null

  constructor(screen: LiveScreen, terminal: Terminal, readBlob: ReadBlob) {
    this.#screen = screen
    this.#terminal = terminal
    this.#readBlob = readBlob
  }

  /** One item of `run.outputs()`: a piece of a stream, or a whole output. */
  async print(output: Output): Promise<void> {
    switch (output.output_type) {
      case 'stream':
        this.#addToStream(output.name, typeof output.text === 'string' ? output.text : output.text.tail)
        return
      case 'error':
        this.#printBlock(
          output.traceback.length > 0
            ? output.traceback.join('\n')
            : `${this.#terminal.paint('red', output.ename)}: ${output.evalue}`,
        )
        return
      case 'display_data':
      case 'execute_result':
        this.#printBlock(await this.#bundleText(output.data))
    }
  }

  /** Nothing more comes. */
  finish(): void {
    this.#endStream()
    this.#screen.freshLine()
  }

  #addToStream(name: string, piece: string): void {
    if (this.#stream?.name !== name) {
      this.#endStream()
      this.#stream = { name, text: new StreamText(this.#screen) }
    }
    this.#stream.text.add(piece)
  }

  #endStream(): void {
    this.#stream?.text.finish()
    this.#stream = null
  }

  #printBlock(text: string): void {
    this.finish()
    const shown = this.#screen.interactive ? text : stripVTControlCharacters(text)
    if (shown !== '') this.#screen.write(shown.endsWith('\n') ? shown : `${shown}\n`)
  }

  async #bundleText(data: MimeBundle): Promise<string> {
    const { shown, blob, besides } = showBundle(data)
    const text = blob === null ? shown : new TextDecoder().decode(await this.#readBlob(blob))
    const rest = besides.length === 0 ? '' : this.#terminal.paint('dim', `[${besides.join(', ')}]`)
    return [text, rest].filter((part) => part !== '').join('\n')
  }
}
