/** What the main thread says, in order, through the ring; the channels thread makes Jupyter messages of it. */
import type { RingWriter } from './ring.ts'
import { currentScope } from './scope.ts'
import { record } from './threads.ts'
import type { Json } from './wire.ts'

export class Outlet {
  readonly #ring: RingWriter
  /** The request that output belongs to when the code that makes it has lost its scope (ref 0: none). */
  lastRef = 0

  constructor(ring: RingWriter) {
    this.#ring = ring
  }

  /** The request that the running code works for. */
  ref(): number {
    return currentScope.getStore()?.ref ?? this.lastRef
  }

  stream(name: 'stdout' | 'stderr', text: string, ref: number = this.ref()): void {
    if (text !== '') this.#ring.write(record[name], ref, text)
  }

  iopub(type: string, content: Json, metadata: Json = {}, ref: number = this.ref()): void {
    this.#ring.write(record.iopub, ref, JSON.stringify({ t: type, c: content, m: metadata }))
  }

  reply(ref: number, type: string, content: Json): void {
    this.#ring.write(record.reply, ref, JSON.stringify({ t: type, c: content }))
  }

  inputRequest(ref: number, prompt: string, password: boolean): void {
    this.#ring.write(
      record.inputRequest,
      ref,
      JSON.stringify({ t: 'input_request', c: { prompt, password } }),
    )
  }

  barrier(token: number): void {
    this.#ring.write(record.barrier, token, '')
  }

  release(ref: number): void {
    this.#ring.write(record.release, ref, '')
  }

  exit(): void {
    this.#ring.write(record.exit, 0, '')
  }
}
