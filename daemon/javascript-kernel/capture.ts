/** Replaces `process.stdout`, `process.stderr` and `console`: what they write becomes stream messages. */
import { Console } from 'node:console'
import { Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { Outlet } from './outlet.ts'

type Done = (error?: Error | null) => void

/** Writes at once, without the queue of an ordinary stream: a loop that never yields must still be heard. */
class CapturedStream extends Writable {
  readonly isTTY = false
  readonly fd: number
  readonly #name: 'stdout' | 'stderr'
  readonly #outlet: Outlet
  readonly #decoder = new StringDecoder('utf8')

  constructor(outlet: Outlet, name: 'stdout' | 'stderr') {
    super({ decodeStrings: false })
    this.#outlet = outlet
    this.#name = name
    this.fd = name === 'stdout' ? 1 : 2
  }

  override write(chunk: unknown, encodingOrDone?: BufferEncoding | Done, done?: Done): boolean {
    this.#emit(chunk, typeof encodingOrDone === 'string' ? encodingOrDone : undefined)
    const callback = typeof encodingOrDone === 'function' ? encodingOrDone : done
    if (callback) process.nextTick(callback)
    return true
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    this.#emit(chunk, encoding)
    done()
  }

  /** A library that ends stdout must not silence the cells after it. */
  override end(...args: unknown[]): this {
    const [chunk] = args
    if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') this.write(chunk)
    const callback = args.find((arg) => typeof arg === 'function')
    if (callback) process.nextTick(callback as () => void)
    return this
  }

  override destroy(): this {
    return this
  }

  #emit(chunk: unknown, encoding: BufferEncoding | undefined): void {
    if (typeof chunk === 'string') {
      const text =
        encoding && !/^utf-?8$/i.test(encoding) ? Buffer.from(chunk, encoding).toString('utf8') : chunk
      this.#outlet.stream(this.#name, text)
    } else if (chunk instanceof Uint8Array)
      this.#outlet.stream(this.#name, this.#decoder.write(Buffer.from(chunk)))
    else throw new TypeError(`process.${this.#name}.write() takes a string or bytes, not ${typeof chunk}`)
  }
}

/** `clear` is what `console.clear()` does. */
export function captureOutput(outlet: Outlet, clear: () => void): void {
  const stdout = new CapturedStream(outlet, 'stdout')
  const stderr = new CapturedStream(outlet, 'stderr')
  for (const [name, value] of Object.entries({ stdout, stderr })) {
    Object.defineProperty(process, name, { value, configurable: true, enumerable: true, writable: true })
  }
  const console = new Console({ stdout, stderr, ignoreErrors: false, colorMode: false })
  console.clear = clear
  Object.defineProperty(globalThis, 'console', {
    value: Object.assign(console, { Console }),
    configurable: true,
    writable: true,
  })
}
