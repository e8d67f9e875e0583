/**
 * Output text as a whole, a window at a time: all texts of an execution (before them, a cell's source) in a row, `offset` counting
 * characters (UTF-16 units) over that row. At most 1 MiB a window.
 */
import { isBinaryMime } from '../../../protocol/mime.ts'
import type { Execution, Output } from '../../../protocol/notebook.ts'
import type { Client } from '../../sdk/client.ts'
import { outputUri } from '../resources/uri.ts'
import { cutToBytes } from './model-text.ts'
import { isBlobRef, structuredOutput } from './structured.ts'

/** Bytes of text in one window. */
export const WINDOW = 1024 * 1024

export interface FullOutput {
  /** The part of the text before the outputs that is in the window. */
  readonly lead: string
  /** Outputs of which the window has something, and those that have no text. */
  readonly outputs: Record<string, unknown>[]
  /** What of each text is in the window, in order. */
  readonly texts: string[]
  readonly next_offset?: number
}

type Read = (offset: number) => Promise<{ text: string; chars: number }>

export async function fullOutput(
  client: Client,
  execution: Pick<Execution, 'execution_id' | 'outputs'>,
  offset: number,
  lead = '',
): Promise<FullOutput> {
  const window = new Window(offset)
  const first = await window.take(readOf(lead))
  const outputs: Record<string, unknown>[] = []
  const texts: string[] = []
  for (const [index, output] of execution.outputs.entries()) {
    const mime = mainMime(output)
    if (output.output_type === 'display_data' || output.output_type === 'execute_result') {
      if (mime === undefined) {
        outputs.push(structuredOutput(output, { blob: outputUri(execution.execution_id, index) }))
        continue
      }
    }
    const text = await window.take(readerOf(client, execution.execution_id, index, output, mime))
    if (text === null) continue
    texts.push(text)
    outputs.push(withText(output, mime, text))
  }
  return {
    lead: first ?? '',
    outputs,
    texts,
    ...(window.next === null ? {} : { next_offset: window.next }),
  }
}

class Window {
  readonly #from: number
  #at = 0
  #left = WINDOW
  #next: number | null = null

  constructor(from: number) {
    this.#from = from
  }

  /** Where the next window begins, or null. */
  get next(): number | null {
    return this.#next
  }

  /** The part of the next text that is in the window; null when nothing is. */
  async take(read: Read): Promise<string | null> {
    if (this.#next !== null) return null
    let at = Math.max(0, this.#from - this.#at)
    let { text, chars } = await read(at)
    let taken = ''
    for (;;) {
      const piece = cutToBytes(text, this.#left)
      this.#left -= Buffer.byteLength(piece)
      taken += piece
      at += piece.length
      if (piece.length < text.length || at >= chars || this.#left === 0) break
      ;({ text, chars } = await read(at))
      if (text === '') break
    }
    if (at < chars && this.#from < this.#at + chars) this.#next = this.#at + at
    this.#at += chars
    return taken === '' && chars > 0 ? null : taken
  }
}

const readOf =
  (text: string): Read =>
  async (offset) => ({ text: text.slice(offset), chars: text.length })

/** The mime type whose text stands for the output. */
function mainMime(output: Output): string | undefined {
  if (output.output_type !== 'display_data' && output.output_type !== 'execute_result') return undefined
  const names = Object.keys(output.data).filter((name) => !isBinaryMime(name))
  return names.includes('text/plain') ? 'text/plain' : names[0]
}

function readerOf(
  client: Client,
  execution_id: string,
  index: number,
  output: Output,
  mime: string | undefined,
): Read {
  if (output.output_type === 'stream' && typeof output.text === 'string') return readOf(output.text)
  if (output.output_type === 'error')
    return readOf(output.traceback.join('\n') || `${output.ename}: ${output.evalue}`)
  if (mime !== undefined && 'data' in output) {
    const value = output.data[mime]
    if (!isBlobRef(value)) return readOf(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
  }
  return async (offset) => {
    const { text, chars } = await client.call('read_output', {
      execution_id,
      index,
      offset,
      ...(mime === undefined ? {} : { mime }),
    })
    return { text, chars }
  }
}

function withText(output: Output, mime: string | undefined, text: string): Record<string, unknown> {
  switch (output.output_type) {
    case 'stream':
      return { output_type: 'stream', name: output.name, text }
    case 'error':
      return { ...output, traceback: text.split('\n') }
    case 'display_data':
    case 'execute_result': {
      const structured = structuredOutput(output)
      return mime === undefined
        ? structured
        : { ...structured, data: { ...(structured.data as Record<string, unknown>), [mime]: text } }
    }
  }
}
