import type { DurableEvent } from '../../protocol/events.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { Output } from '../../protocol/notebook.ts'
import type { Statement, Store } from '../store/store.ts'
import type { Change } from './change.ts'
import type { Display } from './messages.ts'
import {
  type Entry,
  entryBytes,
  hasDisplayId,
  insertOutput,
  OVERHEAD,
  outputBytes,
  snapshot,
} from './output-entry.ts'
import { OutputTail } from './output-tail.ts'
import { readRows } from './reading.ts'
import type { Detail } from './rows.ts'
import { shorten, shortenLines, unitsWithin } from './shorten.ts'
import { StreamOutput } from './stream-output.ts'
import type { Splice } from './terminal.ts'
import { bundleBytes, jsonBytes } from './values.ts'

export class Recorder {
  readonly #id: ExecutionId
  readonly #limit: number
  readonly #entries: Entry[] = []
  #bytes = 0
  #tail: OutputTail | null = null
  #nextIndex = 0
  /** Stream text that was not fed yet: one feed for all that comes in one go. */
  #text: string[] = []
  #textName = ''
  #clearNext = false
  #cleared = false
  readonly #dirty = new Set<Entry>()
  readonly #removed: number[] = []
  #errorCut = false
  /** The run is over: what comes now is late. */
  #sealed = false

  constructor(id: ExecutionId, limit: number) {
    this.#id = id
    this.#limit = limit
  }

  /** Goes on with what is stored. `sealed`: the run is over. */
  static resume(store: Store, id: ExecutionId, limit: number, detail: Detail, sealed: boolean): Recorder {
    const recorder = new Recorder(id, limit)
    recorder.#sealed = sealed
    recorder.#clearNext = detail.clear_next ?? false
    recorder.#errorCut = (detail.truncated ?? false) && !detail.tail?.missing
    const { tail } = detail
    for (const { index, stored } of readRows(store, id)) {
      if (tail && index === tail.index) continue // the marker is made anew
      const inTail = tail !== undefined && index > tail.index
      const content: Entry['content'] =
        stored.output_type === 'stream'
          ? { kind: 'stream', stream: StreamOutput.resume(store, id, index, stored, inTail) }
          : { kind: 'value', output: stored, bytes: outputBytes(stored) }
      const entry = { index, content }
      if (inTail) {
        recorder.#tail ??= new OutputTail(tail.index, tail.missing)
        recorder.#tail.add(entry)
      } else {
        recorder.#entries.push(entry)
        recorder.#bytes += entryBytes(entry)
      }
      recorder.#nextIndex = index + 1
    }
    if (tail) {
      recorder.#tail ??= new OutputTail(tail.index, tail.missing)
      recorder.#nextIndex = Math.max(recorder.#nextIndex, tail.index + 1)
    }
    return recorder
  }

  get truncated(): boolean {
    return this.#errorCut || (this.#tail?.missing ?? 0) > 0
  }

  /** What of this the execution's row keeps. */
  get detail(): Pick<Detail, 'tail' | 'clear_next' | 'truncated'> {
    return {
      ...(this.#tail ? { tail: { index: this.#tail.index, missing: this.#tail.missing } } : {}),
      ...(this.#clearNext ? { clear_next: true } : {}),
      ...(this.truncated ? { truncated: true } : {}),
    }
  }

  /** Takes stream text; it becomes visible at the next `flush`. */
  text(change: Change, name: string, text: string): void {
    if (text === '') return
    if (this.#textName !== name) this.flush(change)
    this.#textName = name
    this.#text.push(text)
  }

  /** Feeds the text taken so far. */
  flush(change: Change): void {
    if (this.#text.length === 0) return
    const text = this.#text.join('')
    const name = this.#textName
    this.#text = []
    this.#clearIfDue(change)
    if (this.#tooLate(change, Buffer.byteLength(text))) return
    const last = this.#last
    if (last?.content.kind === 'stream' && last.content.stream.name === name) {
      const splice = last.content.stream.feed(text)
      // Also when nothing is seen of it: where the cursor is must be in the row.
      this.#dirty.add(last)
      if (splice) this.#splice(change, last, last.content.stream, splice)
      return
    }
    this.#endStream(change)
    if (!this.#tail && this.#bytes + OVERHEAD >= this.#headLimit) this.#startTail()
    this.#newStream(change, name, text)
  }

  /** An output that is no stream. `page` payloads come this way too. */
  output(change: Change, output: Exclude<Output, { output_type: 'stream' }>): void {
    this.flush(change)
    this.#clearIfDue(change)
    if (this.#tooLate(change, outputBytes(output))) return
    this.#endStream(change)
    const kept = output.output_type === 'error' ? this.#fitError(output) : output
    const bytes = outputBytes(kept)
    if (!this.#tail && this.#bytes + bytes + OVERHEAD > this.#valueLimit) this.#startTail()
    const entry: Entry = { index: this.#nextIndex, content: { kind: 'value', output: kept, bytes } }
    if (this.#tail && bytes + OVERHEAD > this.#tailLimit) {
      this.#tail.missing += bytes
      return
    }
    this.#nextIndex++
    this.#add(entry)
    if (!this.#tail) change.output(this.#id, this.#entries.length - 1, kept)
  }

  clear(change: Change, wait: boolean): void {
    this.flush(change)
    this.#clearNext = true
    if (!wait) this.#clearIfDue(change)
  }

  /** Replaces the content of every output with this display id. Returns whether there was one. */
  update(change: Change, display: Display): boolean {
    this.flush(change)
    let found = false
    const replace = (entries: Entry[], position: (i: number) => number | null) => {
      entries.forEach((entry, i) => {
        const { content } = entry
        if (content.kind !== 'value' || !hasDisplayId(content.output, display.displayId)) return
        found = true
        const before = entryBytes(entry)
        const size = bundleBytes(display.data)
        const fits = this.#bytes - before + size <= this.#limit
        if (!fits) this.#errorCut = true
        const data = fits ? display.data : { 'text/plain': `[roomd: ${size} bytes are missing here]` }
        const output: Output = { ...content.output, data, metadata: display.metadata }
        content.output = output
        content.bytes = outputBytes(output)
        const grown = entryBytes(entry) - before
        if (this.#tail && entries === this.#tail.entries) this.#tail.grew(grown)
        else this.#bytes += grown
        this.#dirty.add(entry)
        const at = position(i)
        if (at !== null) change.output(this.#id, at, output)
      })
    }
    replace(this.#entries, (i) => i)
    if (this.#tail) replace(this.#tail.entries, () => null)
    return found
  }

  /** The run has ended, or what came late is over for now: streams get their final form, the end of a cut output is told. */
  seal(change: Change): void {
    this.flush(change)
    this.#endStream(change)
    const first = !this.#sealed
    this.#sealed = true
    const tail = this.#tail
    if (!tail || !first) return
    let position = this.#entries.length
    if (tail.missing > 0) change.output(this.#id, position++, tail.marker(this.#limit))
    for (const entry of tail.entries) change.output(this.#id, position++, snapshot(entry))
  }

  /**
   * While output goes beyond the first half of the limit one output shows its end, now and then. Returns when it is to be told next
   * (clock time), or null when it is up to date.
   */
  preview(change: Change, now: number): number | null {
    const tail = this.#tail
    if (!tail || this.#sealed) return null
    const due = tail.previewDue(now)
    if (due !== true) return due
    change.output(this.#id, this.#entries.length, tail.preview())
    return null
  }

  /** Where the next output goes: behind so many UTF-16 units of stream output `index`, or, `chars` null, before output `index`. */
  place(change: Change): { index: number; chars: number | null } {
    this.flush(change)
    const shown = this.#entries.length + (this.#tail ? this.#tail.entries.length + 1 : 0)
    const last = this.#last?.content
    return last?.kind === 'stream'
      ? { index: shown - 1, chars: last.stream.chars }
      : { index: shown, chars: null }
  }

  get previewing(): boolean {
    return this.#tail !== null && !this.#sealed
  }

  /** Statements that make the rows what this is now. Call once a change, last. */
  rows(): Statement[] {
    const statements: Statement[] = []
    const id = this.#id
    if (this.#cleared) {
      statements.push({ sql: 'DELETE FROM outputs WHERE execution_id = ?', values: [id] })
      statements.push({ sql: 'DELETE FROM output_pieces WHERE execution_id = ?', values: [id] })
      this.#cleared = false
    }
    for (const index of this.#removed.splice(0)) {
      statements.push({
        sql: 'DELETE FROM outputs WHERE execution_id = ? AND output_index = ?',
        values: [id, index],
      })
      statements.push({
        sql: 'DELETE FROM output_pieces WHERE execution_id = ? AND output_index = ?',
        values: [id, index],
      })
    }
    for (const { index, content } of this.#dirty) {
      if (content.kind === 'stream') statements.push(...content.stream.rows(id, index))
      else statements.push(insertOutput(id, index, content.output))
    }
    this.#dirty.clear()
    if (this.#tail && this.#tail.missing > 0)
      statements.push(insertOutput(id, this.#tail.index, this.#tail.marker(this.#limit)))
    return statements
  }

  /** All outputs as snapshots show them. */
  outputs(): Output[] {
    const shown = this.#entries.map(snapshot)
    const tail = this.#tail
    if (!tail) return shown
    if (tail.missing > 0) shown.push(tail.marker(this.#limit))
    return [...shown, ...tail.entries.map(snapshot)]
  }

  /**
   * Outputs so far as peers that saw them come have them, changes that are not committed yet included. Of a long text only the ends,
   * and of its end all that can still change: what a peer keeps of it anyway. So this costs the same however much was printed.
   */
  replay(): DurableEvent[] {
    const outputs = this.#entries.map(({ content }) =>
      content.kind === 'stream' ? content.stream.changeable() : content.output,
    )
    if (this.#tail?.previewed) outputs.push(this.#tail.preview())
    return outputs.map((output, index) => ({ type: 'output', execution_id: this.#id, index, output }))
  }

  get #last(): Entry | undefined {
    return this.#tail ? this.#tail.entries.at(-1) : this.#entries.at(-1)
  }

  get #headLimit(): number {
    return this.#limit / 2
  }

  get #valueLimit(): number {
    return this.#limit - this.#limit / 16
  }

  get #tailLimit(): number {
    return Math.max(this.#limit - this.#bytes, this.#limit / 16)
  }

  #startTail(): void {
    this.#tail = new OutputTail(this.#nextIndex++, 0)
  }

  #add(entry: Entry): void {
    this.#dirty.add(entry)
    if (this.#tail) {
      this.#tail.add(entry)
      this.#trim(this.#tail)
    } else {
      this.#entries.push(entry)
      this.#bytes += entryBytes(entry)
    }
  }

  #newStream(change: Change, name: string, text: string): void {
    const stream = new StreamOutput(name, this.#tail !== null)
    const entry: Entry = { index: this.#nextIndex++, content: { kind: 'stream', stream } }
    this.#add(entry)
    const splice = stream.feed(text) ?? { from: 0, text: '' }
    if (this.#tail) {
      this.#splice(change, entry, stream, splice)
      return
    }
    change.output(this.#id, this.#entries.length - 1, { output_type: 'stream', name, text: '' })
    this.#splice(change, entry, stream, splice)
  }

  /** Carries out a splice of a stream's text, as far as the limit lets it. */
  #splice(change: Change, entry: Entry, stream: StreamOutput, splice: Splice): void {
    this.#dirty.add(entry)
    const before = stream.bytes
    if (this.#tail) {
      stream.apply(splice)
      this.#tail.grew(stream.bytes - before)
      this.#trim(this.#tail)
      return
    }
    const room = this.#headLimit - this.#bytes
    const fits = splice.text.length * 3 <= room || Buffer.byteLength(splice.text) <= room
    const text = fits ? splice.text : splice.text.slice(0, unitsWithin(splice.text, Math.max(0, room)))
    stream.apply({ from: splice.from, text })
    this.#bytes += stream.bytes - before
    change.splice(this.#id, this.#entries.length - 1, splice.from, text)
    if (fits) return
    // What a terminal has made of it goes on in an output of its own.
    stream.finish()
    this.#startTail()
    this.#newStream(change, stream.name, splice.text.slice(text.length))
  }

  #endStream(change: Change): void {
    const last = this.#last
    if (last?.content.kind !== 'stream') return
    const { stream } = last.content
    const splice = stream.finish()
    this.#dirty.add(last)
    if (splice) this.#splice(change, last, stream, splice)
  }

  #trim(tail: OutputTail): void {
    const { removed, cut } = tail.trim(this.#tailLimit)
    if (cut) this.#dirty.add(cut)
    for (const entry of removed) {
      this.#dirty.delete(entry)
      this.#removed.push(entry.index)
    }
  }

  /** What comes late for an output that is already cut is only counted. Positions may shift by the marker, so all is told again. */
  #tooLate(change: Change, bytes: number): boolean {
    if (!this.#sealed || !this.#tail) return false
    this.#tail.missing += bytes
    change.cleared(this.#id)
    this.outputs().forEach((output, index) => {
      change.output(this.#id, index, output)
    })
    return true
  }

  #clearIfDue(change: Change): void {
    if (!this.#clearNext) return
    this.#clearNext = false
    if (this.#entries.length === 0 && !this.#tail) return
    this.#entries.length = 0
    this.#bytes = 0
    this.#tail = null
    this.#nextIndex = 0
    this.#errorCut = false
    this.#dirty.clear()
    this.#removed.length = 0
    this.#cleared = true
    change.cleared(this.#id)
  }

  #fitError(output: Extract<Output, { output_type: 'error' }>): Output {
    const fitted = {
      output_type: output.output_type,
      ename: shorten(output.ename, 1024),
      evalue: shorten(output.evalue, 8 * 1024),
      traceback: shortenLines(output.traceback),
    }
    if (jsonBytes(fitted) < jsonBytes(output)) this.#errorCut = true
    return fitted
  }
}
