/**
 * The proxy's own stdin and stdout. stdout carries messages and nothing else: what any code of ours prints there goes to stderr, and
 * only this object has the way through. Owns noticing that the client is gone: end or error of stdin, EPIPE on stdout, another
 * parent process. Races: the parent may have ended before we looked first; then stdin's end tells it.
 */
import type { Clock } from '../../protocol/clock.ts'
import { type Message, toWire } from './jsonrpc.ts'
import { type Line, LineSplitter } from './lines.ts'

export interface ClientPipeEvents {
  line(line: Line): void
  /** Once. `polite`: stdin ended and answers can still be written. */
  gone(why: string, polite: boolean): void
  /** The client reads slower than it is written to (true), or has caught up. */
  behind(behind: boolean): void
}

/** Bytes that may wait for the client before the child is not read any more. */
const BEHIND_AT = 4 * 1024 * 1024
const PARENT_LOOK = 500

export class ClientPipe {
  readonly #events: ClientPipeEvents
  readonly #clock: Clock
  readonly #write: typeof process.stdout.write
  readonly #lines = new LineSplitter()
  readonly #parent = process.ppid
  #cancelLook = () => {}
  #gone = false
  #behind = false

  constructor(clock: Clock, events: ClientPipeEvents) {
    this.#clock = clock
    this.#events = events
    this.#write = process.stdout.write.bind(process.stdout)
    process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write
  }

  open(): void {
    const { stdin, stdout, stderr } = process
    // Whoever listened before would end the process with the child still there.
    stdout.removeAllListeners('error')
    stdout.on('error', (error) => this.#end(`stdout: ${error.message}`, false))
    // Nobody reads the log: no reason to end.
    stderr.on('error', () => {})
    stdin.on('data', (chunk: Buffer) => {
      for (const line of this.#lines.push(chunk)) this.#events.line(line)
    })
    stdin.on('end', () => this.#end('stdin ended', true))
    stdin.on('close', () => this.#end('stdin closed', true))
    stdin.on('error', (error) => this.#end(`stdin: ${error.message}`, false))
    this.#look()
  }

  send(message: Message): void {
    const fits = this.#write(`${JSON.stringify(toWire(message))}\n`)
    if (fits || this.#behind || process.stdout.writableLength < BEHIND_AT) return
    this.#behind = true
    this.#events.behind(true)
    process.stdout.once('drain', () => {
      this.#behind = false
      this.#events.behind(false)
    })
  }

  /** Resolves when what was sent has left, or cannot leave any more. */
  flush(): Promise<void> {
    return new Promise((resolve) => {
      if (process.stdout.destroyed) resolve()
      else this.#write('', () => resolve())
    })
  }

  /** Looks no further; stdin is let go, so that it does not hold the process. */
  dispose(): void {
    this.#gone = true
    this.#cancelLook()
    process.stdin.destroy()
  }

  #look(): void {
    if (this.#gone) return
    if (process.ppid !== this.#parent) {
      this.#end(`the parent process ${this.#parent} is gone`, false)
      return
    }
    this.#cancelLook = this.#clock.after(PARENT_LOOK, () => this.#look())
  }

  #end(why: string, polite: boolean): void {
    if (this.#gone) return
    this.#gone = true
    this.#cancelLook()
    this.#events.gone(why, polite)
  }
}
