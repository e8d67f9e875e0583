/**
 * What an Output widget shows: outputs that the kernel publishes in answer to the message that the widget's `msg_id` names go into the
 * widget instead of under the cell (nbclient's and JupyterLab's rule). Text is shaped as in a cell; a widget keeps CAPTURE_BYTES,
 * the oldest is left out first and a marker says how much.
 */

import { type Display, isRecord, type Told } from '../messages.ts'
import { TerminalText } from '../terminal.ts'
import { jsonBytes } from '../values.ts'

/** Bytes of outputs of one widget; large values are blobs and count as references. */
export const CAPTURE_BYTES = 1024 * 1024

export type Capturable = Extract<Told, { kind: 'stream' | 'display' | 'result' | 'error' | 'clear' }>

interface Captured {
  output: Record<string, unknown>
  readonly displayId?: string | undefined
  terminal?: TerminalText
  bytes: number
}

export class CapturedOutputs {
  #entries: Captured[] = []
  /** Text of one stream that is not carried out yet: one feed for all that comes in one go. */
  #pending: string[] = []
  #pendingName = ''
  #clearNext = false
  #bytes = 0
  #missing = 0

  /** Goes on with what the widget's `outputs` are now. */
  constructor(outputs: unknown) {
    for (const output of Array.isArray(outputs) ? outputs.filter(isRecord) : []) {
      const missing = this.#entries.length === 0 ? missingOf(output) : 0
      if (missing > 0) this.#missing += missing
      else this.#add(output)
    }
  }

  /** false: nothing changed. */
  take(told: Capturable): boolean {
    if (told.kind === 'stream' && !this.#clearNext) {
      if (told.name !== this.#pendingName) this.#settle()
      this.#pendingName = told.name
      this.#pending.push(told.text)
      return told.text !== ''
    }
    this.#settle()
    if (told.kind === 'clear') {
      this.#clearNext = true
      return !told.wait && this.#clearIfDue()
    }
    const cleared = this.#clearIfDue()
    switch (told.kind) {
      case 'stream':
        return this.#text(told.name, told.text) || cleared
      case 'display':
      case 'result': {
        const { data, metadata, displayId } = told.display
        const count = told.kind === 'result' ? { execution_count: told.count } : {}
        const output_type = told.kind === 'display' ? 'display_data' : 'execute_result'
        this.#add({ output_type, data, metadata, ...count }, displayId)
        return true
      }
      case 'error': {
        const { ename, evalue, traceback } = told
        this.#add({ output_type: 'error', ename, evalue, traceback: [...traceback] })
        return true
      }
    }
  }

  /** Replaces what has this display id. */
  update({ displayId, data, metadata }: Display): boolean {
    this.#settle()
    let found = false
    for (const entry of this.#entries) {
      if (displayId === undefined || entry.displayId !== displayId) continue
      found = true
      this.#set(entry, { ...entry.output, data, metadata })
    }
    if (found) this.#trim()
    return found
  }

  /** As nbformat has outputs; values may be references to blobs. */
  get outputs(): Record<string, unknown>[] {
    this.#settle()
    const outputs = this.#entries.map(({ output }) => output)
    return this.#missing > 0 ? [markerOf(this.#missing), ...outputs] : outputs
  }

  #settle(): void {
    const text = this.#pending.join('')
    this.#pending = []
    if (text !== '') this.#text(this.#pendingName, text)
  }

  #clearIfDue(): boolean {
    if (!this.#clearNext) return false
    this.#clearNext = false
    const had = this.#entries.length > 0 || this.#missing > 0
    this.#entries = []
    this.#bytes = 0
    this.#missing = 0
    return had
  }

  #text(name: string, text: string): boolean {
    const last = this.#entries.at(-1)
    const same = last?.output.output_type === 'stream' && last.output.name === name ? last : undefined
    const entry = same ?? this.#add({ output_type: 'stream', name, text: '' })
    const before = String(entry.output.text)
    entry.terminal ??= TerminalText.resume(0, before, null)
    const splice = entry.terminal.feed(text)
    if (!splice) return same === undefined
    this.#set(entry, { ...entry.output, text: before.slice(0, splice.from) + splice.text })
    this.#trim()
    return true
  }

  #add(output: Record<string, unknown>, displayId?: string): Captured {
    const entry: Captured = { output, displayId, bytes: 0 }
    this.#entries.push(entry)
    this.#set(entry, output)
    this.#trim()
    return entry
  }

  #set(entry: Captured, output: Record<string, unknown>): void {
    const bytes = jsonBytes(output)
    this.#bytes += bytes - entry.bytes
    entry.output = output
    entry.bytes = bytes
  }

  #trim(): void {
    while (this.#bytes > CAPTURE_BYTES && this.#entries.length > 1) {
      const oldest = this.#entries.shift()
      if (!oldest) return
      this.#bytes -= oldest.bytes
      this.#missing += oldest.bytes
    }
    const [only] = this.#entries
    if (this.#bytes <= CAPTURE_BYTES || only?.output.output_type !== 'stream') return
    // One text alone: its end is kept, from a line's start where there is one.
    const text = String(only.output.text)
    let from = Math.max(0, text.length - CAPTURE_BYTES / 4)
    const line = text.indexOf('\n', from)
    if (line >= 0 && line < text.length - 1) from = line + 1
    const unit = text.charCodeAt(from)
    if (unit >= 0xdc00 && unit <= 0xdfff) from++
    this.#missing += Buffer.byteLength(text.slice(0, from))
    const kept = text.slice(from)
    only.terminal = TerminalText.resume(0, kept, null)
    this.#set(only, { ...only.output, text: kept })
  }
}

const MARKER = /^\[roomd: (\d+) bytes of output are missing here; \d+ bytes of a widget are kept\]\n$/

function markerOf(missing: number): Record<string, unknown> {
  const text = `[roomd: ${missing} bytes of output are missing here; ${CAPTURE_BYTES} bytes of a widget are kept]\n`
  return { output_type: 'stream', name: 'stderr', text }
}

/** Bytes that a marker says are missing; 0: it is none. */
function missingOf(output: Record<string, unknown>): number {
  return typeof output.text === 'string' ? Number(MARKER.exec(output.text)?.[1] ?? 0) : 0
}
