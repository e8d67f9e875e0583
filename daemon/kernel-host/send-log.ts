/**
 * Which requests were handed to the kernel. An id is written here before its message is sent, and a message whose id is here is
 * never sent again: kernels run a repeated message twice. A new host learns from it what may still be running.
 *
 * One JSON line an entry, appended with one write each, without fsync (see spool.ts) unless the kernel may outlive this machine's
 * failure (a remote one): then each is on disk before its message leaves. A half-written last line was never sent and
 * is dropped. Settled ids are kept until the newest 10,000 push them out: by then the daemon has their outcome.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { z } from 'zod'

export interface SentRequest {
  readonly id: string
  readonly channel: 'shell' | 'control' | 'stdin'
  readonly msgType: string
}

const Line = z.union([
  z.object({ id: z.string(), channel: z.enum(['shell', 'control', 'stdin']), msgType: z.string() }),
  z.object({ settled: z.string() }),
])

const KEPT = 10_000
const REWRITE_BYTES = 4 * 1024 * 1024

export class SendLog {
  readonly #path: string
  /** In the order of sending; Map and Set keep it. */
  readonly #open = new Map<string, SentRequest>()
  readonly #settled = new Set<string>()
  /** Ends that the disk did not take yet: they go before the next entry. */
  #unwritten: string[] = []
  readonly #durable: boolean
  #file: number
  #size = 0

  constructor(path: string, { durable = false }: { durable?: boolean } = {}) {
    this.#durable = durable
    this.#path = path
    const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    for (const line of whole.split('\n')) {
      if (line === '') continue
      const entry = Line.parse(JSON.parse(line))
      if ('settled' in entry) this.#settle(entry.settled)
      else this.#open.set(entry.id, entry)
    }
    this.#file = openSync(path, 'a', 0o600)
    if (durable) syncFolder(path)
    this.#size = Buffer.byteLength(whole)
    ftruncateSync(this.#file, this.#size)
  }

  has(id: string): boolean {
    return this.#open.has(id) || this.#settled.has(id)
  }

  /** Sent and not settled, in order. */
  open(): SentRequest[] {
    return [...this.#open.values()]
  }

  /** Writes the entry; the caller sends the message only when this returned. Throws the system's error. */
  sending(request: SentRequest): void {
    this.#append({ id: request.id, channel: request.channel, msgType: request.msgType })
    if (this.#durable) fdatasyncSync(this.#file)
    this.#open.set(request.id, request)
    // What never settles (input_reply) must not fill memory.
    if (this.#open.size > KEPT) for (const id of this.#open.keys()) if (this.#settle(id)) break
  }

  /**
   * Never throws. An end that the disk does not take is written with the next entry; a host that dies before that makes the next one
   * ask the kernel, as for every request without an end.
   */
  settled(id: string): void {
    if (!this.#settle(id)) return
    this.#unwritten.push(id)
    try {
      this.#appendUnwritten()
    } catch {
      // The disk is full; later.
    }
  }

  close(): void {
    closeSync(this.#file)
  }

  #settle(id: string): boolean {
    if (!this.#open.delete(id)) return false
    this.#settled.add(id)
    if (this.#settled.size > KEPT)
      for (const oldest of this.#settled) {
        this.#settled.delete(oldest)
        break
      }
    return true
  }

  #append(entry: SentRequest): void {
    this.#appendUnwritten()
    if (this.#size > REWRITE_BYTES) this.#rewrite()
    this.#write(entry)
  }

  #appendUnwritten(): void {
    for (let id = this.#unwritten[0]; id !== undefined; id = this.#unwritten[0]) {
      this.#write({ settled: id })
      this.#unwritten.shift()
    }
  }

  /** All of the line, or nothing and the system's error. */
  #write(entry: SentRequest | { settled: string }): void {
    const line = Buffer.from(`${JSON.stringify(entry)}\n`)
    try {
      if (writeSync(this.#file, line) !== line.length) throw new Error('the disk took only a part')
    } catch (error) {
      ftruncateSync(this.#file, this.#size)
      throw error
    }
    this.#size += line.length
  }

  /** The same knowledge in a fresh file, swapped in whole. */
  #rewrite(): void {
    const next = `${this.#path}.new`
    const lines: string[] = []
    for (const id of this.#settled)
      lines.push(JSON.stringify({ id, channel: 'shell', msgType: '' }), JSON.stringify({ settled: id }))
    for (const request of this.#open.values()) lines.push(JSON.stringify(request))
    const file = openSync(next, 'w', 0o600)
    this.#size = lines.length === 0 ? 0 : writeSync(file, `${lines.join('\n')}\n`)
    if (this.#durable) fdatasyncSync(file)
    closeSync(file)
    renameSync(next, this.#path)
    if (this.#durable) syncFolder(this.#path)
    closeSync(this.#file)
    this.#file = openSync(this.#path, 'a', 0o600)
  }
}

/** Makes the file's name as durable as its content. Windows has no such thing and needs none. */
function syncFolder(path: string): void {
  if (process.platform === 'win32') return
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
