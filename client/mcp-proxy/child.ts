/**
 * One child process: its life from spawning until nothing of it is left, and messages to and from it. Owns process, pipes and the
 * requests that the proxy itself makes (`initialize`, `tools/list`); requests passed on for the client are the proxy's.
 *
 * `ended` comes exactly once, after all that the child wrote before its end was delivered: an answer that was written is an answer,
 * even when its writer is gone. Ending is closing stdin, then SIGTERM, then SIGKILL; a signal is only ever sent while the process
 * has not been reaped, so it never meets a reused process id.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { Clock } from '../../protocol/clock.ts'
import { isObject, type JsonObject, type Message, parseMessage, type RequestId, toWire } from './jsonrpc.ts'
import { type Line, LineSplitter } from './lines.ts'

export interface LaunchSpec {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

export interface ChildEnd {
  readonly code: number | null
  readonly signal: string | null
  /** "killed by SIGKILL", "ended with code 1: Error: …", "could not be started: …" */
  readonly detail: string
}

export interface ChildEvents {
  /** A message that is not an answer to a request of the proxy's own. */
  message(message: Message, child: Child): void
  /** A line longer than the bound; `head` and `tail` are its ends. */
  tooLong(line: Extract<Line, { kind: 'too_long' }>, child: Child): void
  ended(end: ChildEnd, child: Child): void
  log(text: string): void
}

/** Exit code of a child that makes room for another version. */
export const HANDOFF_CODE = 75

/** Steps of ending, in ms after the one before. */
const TERM_AFTER = 500
const KILL_AFTER = 400
/** How long output of a dead child may still arrive, should something else hold its pipe open. */
const DRAIN_BOUND = 250
const STRAY_LINES_SHOWN = 20
const STDERR_KEPT = 2048

export class Child {
  /** Counts the children of one proxy, from 1. */
  readonly generation: number
  readonly #process: ChildProcess
  readonly #clock: Clock
  readonly #events: ChildEvents
  readonly #lines = new LineSplitter()
  readonly #own = new Map<RequestId, { resolve(result: JsonObject): void; reject(error: Error): void }>()
  #ownIds = 0
  #exit: { code: number | null; signal: string | null; failure: string | null } | null = null
  #cancelDrain = () => {}
  #cancelStep = () => {}
  #stray = 0
  #stderr = ''
  #whenEnded: Array<() => void> = []
  #end: ChildEnd | null = null
  #ending = false

  constructor(spec: LaunchSpec, generation: number, clock: Clock, events: ChildEvents) {
    this.generation = generation
    this.#clock = clock
    this.#events = events
    this.#process = spawn(spec.command, [...spec.args], {
      env: { ...spec.env },
      stdio: ['pipe', 'pipe', 'pipe'],
      windowsHide: true,
    })
    const { stdin, stdout, stderr } = this.#process
    // A child that is gone reads no more; its end is told by `exit`.
    stdin?.on('error', () => {})
    stdout?.on('data', (chunk: Buffer) => this.#read(chunk))
    stdout?.on('error', () => {})
    stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString('utf8')).slice(-STDERR_KEPT)
      passOn(chunk, stderr)
    })
    stderr?.on('error', () => {})
    this.#process.once('error', (error) => {
      // Spawning failed: there will be no `exit`. Afterwards `error` is about a signal that could not be sent.
      if (this.#process.pid === undefined) this.#exited(null, null, error.message)
    })
    this.#process.once('exit', (code, signal) => this.#exited(code, signal, null))
    this.#process.once('close', () => this.#settle())
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  /** True once ending was asked for: what it still says may be an echo of that. */
  get ending(): boolean {
    return this.#ending
  }

  /** Bytes that the child has not read yet. */
  get unread(): number {
    return this.#process.stdin?.writableLength ?? 0
  }

  send(message: Message): void {
    if (this.#exit !== null || this.#ending) return
    this.#process.stdin?.write(`${JSON.stringify(toWire(message))}\n`)
  }

  /** A request of the proxy's own. Rejects with the child's error, or when it ends first. */
  request(method: string, params: JsonObject): Promise<JsonObject> {
    // Forwarded requests have numbers, so the two never meet.
    const id = `proxy-${++this.#ownIds}`
    return new Promise((resolve, reject) => {
      if (this.#exit !== null || this.#ending) {
        reject(new Error('the child has ended'))
        return
      }
      this.#own.set(id, { resolve, reject })
      this.send({ kind: 'request', id, method, params })
    })
  }

  /** Reads no further until `resume`: the client does not keep up. */
  pause(): void {
    this.#process.stdout?.pause()
  }

  resume(): void {
    this.#process.stdout?.resume()
  }

  /** Ends it in good order, at the latest after TERM_AFTER + KILL_AFTER; resolves when nothing of it is left. */
  end(): Promise<void> {
    if (!this.#ending) {
      this.#ending = true
      this.#rejectOwn()
      if (this.#exit === null) {
        this.#process.stdin?.end()
        // Output must flow for the pipe to end.
        this.resume()
        this.#cancelStep = this.#clock.after(TERM_AFTER, () => {
          this.#signal('SIGTERM')
          this.#cancelStep = this.#clock.after(KILL_AFTER, () => this.#signal('SIGKILL'))
        })
      }
    }
    return this.whenEnded()
  }

  /** Ends it at once: it is broken. Its end counts as a crash. */
  kill(): void {
    this.#signal('SIGKILL')
  }

  whenEnded(): Promise<void> {
    return this.#end !== null
      ? Promise.resolve()
      : new Promise((resolve) => {
          this.#whenEnded.push(resolve)
        })
  }

  #signal(name: NodeJS.Signals): void {
    // After `exit` the process is reaped and its id may be somebody else's.
    if (this.#exit === null) this.#process.kill(name)
  }

  #read(chunk: Buffer): void {
    for (const line of this.#lines.push(chunk)) {
      if (line.kind === 'too_long') {
        this.#events.tooLong(line, this)
        continue
      }
      const message = parseMessage(line.text)
      if (message.kind === 'malformed') this.#strayLine(line.text, message.reason)
      else if (message.kind !== 'response' || !this.#answered(message.id, message.outcome)) {
        this.#events.message(message, this)
      }
    }
  }

  #answered(id: RequestId, outcome: { result: JsonObject } | { error: { message: string } }): boolean {
    const waiting = this.#own.get(id)
    if (waiting === undefined) return false
    this.#own.delete(id)
    if ('result' in outcome) waiting.resolve(outcome.result)
    else waiting.reject(new Error(outcome.error.message))
    return true
  }

  #strayLine(text: string, reason: string): void {
    this.#stray++
    if (this.#stray > STRAY_LINES_SHOWN) return
    const last = this.#stray === STRAY_LINES_SHOWN ? ' (further ones are not shown)' : ''
    this.#events.log(`the child wrote a line that is no message, ${reason}: ${text.slice(0, 200)}${last}`)
  }

  #exited(code: number | null, signal: string | null, failure: string | null): void {
    if (this.#exit !== null) return
    this.#exit = { code, signal, failure }
    this.#cancelStep()
    this.#rejectOwn()
    if (failure !== null) this.#settle()
    else this.#cancelDrain = this.#clock.after(DRAIN_BOUND, () => this.#settle())
  }

  /** Everything it wrote has arrived, or will not. */
  #settle(): void {
    if (this.#exit === null || this.#end !== null) return
    this.#cancelDrain()
    const { stdin, stdout, stderr } = this.#process
    for (const stream of [stdin, stdout, stderr]) stream?.destroy()
    this.#end = { code: this.#exit.code, signal: this.#exit.signal, detail: this.#detail() }
    for (const resume of this.#whenEnded) resume()
    this.#whenEnded = []
    this.#events.ended(this.#end, this)
  }

  #detail(): string {
    const { code, signal, failure } = this.#exit ?? {}
    if (failure) return `could not be started: ${failure}`
    if (signal) return `killed by ${signal}`
    const said = this.#stderr
      .split('\n')
      .filter((line) => /\berror\b/i.test(line))
      .at(-1)
    return `ended with code ${code}${said === undefined ? '' : `: ${said.trim().slice(0, 200)}`}`
  }

  #rejectOwn(): void {
    const own = [...this.#own.values()]
    this.#own.clear()
    for (const { reject } of own) reject(new Error('the child has ended'))
  }
}

/** Writes to our stderr, and reads no further while nobody reads that. Where its reader is gone, it goes nowhere. */
function passOn(chunk: Buffer, from: Readable): void {
  const { stderr } = process
  if (stderr.errored !== null || stderr.write(chunk)) return
  const resume = () => {
    stderr.off('drain', resume)
    stderr.off('error', resume)
    from.resume()
  }
  from.pause()
  stderr.on('drain', resume)
  stderr.on('error', resume)
}

/** A name for the child's `serverInfo`: its title, else name and version. */
export function titleOf(initialized: JsonObject): string {
  const info = isObject(initialized.serverInfo) ? initialized.serverInfo : {}
  if (typeof info.title === 'string') return info.title
  return `${String(info.name ?? 'unknown')} ${String(info.version ?? '')}`.trim()
}
