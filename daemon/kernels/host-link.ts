/**
 * Keeps a kernel connected: dials its host, redials a lost connection, and when the host itself is gone has another one started.
 * One loop, so there is one connection at most. Ends by `dispose`, or with `lost` when no host comes up any more. Hosts that come up and
 * are killed, however often, are replaced: the kernel lives, and its variables with it.
 */
import type { Clock } from '../../protocol/clock.ts'
import type { BootId, KernelId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import { isAlive, type ProcessIdentity } from '../kernel-host/process-identity.ts'
import { HostConnection } from './host-connection.ts'

/** The host to be dialled. */
export interface HostTarget {
  readonly process: ProcessIdentity
  readonly nonce: string
}

export interface HostLinkPort {
  readonly kernelId: KernelId
  readonly bootId: BootId
  readonly socket: string
  readonly clock: Clock
  connected(connection: HostConnection): void
  disconnected(): void
  event(event: HostEvent): void
  /** Starts another host that adopts the kernel. Rejects when there is nothing to adopt, or when the machine cannot just now. */
  replace(): Promise<HostTarget>
  /** Whether it will work again without the kernel having ended: the machine lacks something for now. */
  passing(error: unknown): boolean
  /** Nothing more is expected of a host that is gone. */
  over(): boolean
  lost(reason: string): void
  log(message: string): void
}

const FIRST_WAIT_MS = 5
const LONGEST_WAIT_MS = 500
/** Between two attempts while the machine cannot start a host. */
const PASSING_MS = 2_000
/** So many hosts in a row that never answered: there is no use in another. */
const UNANSWERED = 5
/** More replacements than this within the time: each further one waits, so that hosts that die at once do not take the machine. */
const REPLACEMENTS = 5
const REPLACEMENTS_WITHIN_MS = 30_000
const SLOW_MS = 2_000

export class HostLink {
  readonly #port: HostLinkPort
  readonly #abort = new AbortController()
  #target: HostTarget
  #connection: HostConnection | null = null
  #replaced: number[] = []
  /** Replacements since a host last answered. */
  #unanswered = 0
  #waiting: { resolve: (connection: HostConnection) => void; reject: (error: Error) => void }[] = []
  readonly #finished: Promise<void>

  constructor(port: HostLinkPort, target: HostTarget) {
    this.#port = port
    this.#target = target
    this.#finished = this.#run()
  }

  get connection(): HostConnection | null {
    return this.#connection
  }

  get host(): ProcessIdentity {
    return this.#target.process
  }

  /** The connection, now or when there is one. Rejects when the link ends before. */
  connected(): Promise<HostConnection> {
    if (this.#connection !== null) return Promise.resolve(this.#connection)
    if (this.#abort.signal.aborted) return Promise.reject(new Error('the link to the kernel host has ended'))
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  /** Resolves when the loop has ended. What was sent before still leaves. */
  async dispose(): Promise<void> {
    this.#stop()
    this.#connection?.close()
    await this.#finished
  }

  #stop(): void {
    this.#abort.abort()
    for (const { reject } of this.#waiting.splice(0))
      reject(new Error('the link to the kernel host has ended'))
  }

  async #run(): Promise<void> {
    let wait = FIRST_WAIT_MS
    while (!this.#abort.signal.aborted) {
      const reason = await this.#once()
      if (reason === null) wait = FIRST_WAIT_MS
      if (this.#abort.signal.aborted) return
      if (!isAlive(this.#target.process)) {
        if (this.#port.over()) return this.#stop()
        if (!(await this.#replace())) return this.#stop()
        wait = FIRST_WAIT_MS
      } else {
        await this.#pause(wait)
        wait = Math.min(wait * 2, LONGEST_WAIT_MS)
      }
    }
  }

  /** One connection from dial to end: null, or why there was none. */
  async #once(): Promise<string | null> {
    const { kernelId, bootId, socket, clock } = this.#port
    let connection: HostConnection
    try {
      connection = await HostConnection.open({
        socket,
        kernelId,
        nonce: this.#target.nonce,
        bootId,
        clock,
        signal: this.#abort.signal,
        event: (event) => this.#port.event(event),
      })
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
    if (this.#abort.signal.aborted) {
      connection.destroy()
      return null
    }
    this.#connection = connection
    this.#unanswered = 0
    this.#port.connected(connection)
    for (const { resolve } of this.#waiting.splice(0)) resolve(connection)
    const reason = await connection.closed
    this.#connection = null
    this.#port.log(`the connection to the host of kernel ${kernelId} ended: ${reason}`)
    this.#port.disconnected()
    return null
  }

  async #replace(): Promise<boolean> {
    if (this.#unanswered >= UNANSWERED) {
      this.#port.lost(`${UNANSWERED} hosts in a row ended before they answered`)
      return false
    }
    this.#unanswered++
    const { clock } = this.#port
    this.#replaced = this.#replaced.filter((at) => clock.now() - at < REPLACEMENTS_WITHIN_MS)
    if (this.#replaced.length >= REPLACEMENTS) {
      this.#port.log(
        `the hosts of kernel ${this.#port.kernelId} keep ending; another one is started in a moment`,
      )
      await this.#pause(SLOW_MS)
      if (this.#abort.signal.aborted) return false
    }
    this.#replaced.push(clock.now())
    for (;;) {
      try {
        this.#target = await this.#port.replace()
        return true
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        if (!this.#port.passing(error)) {
          this.#port.lost(reason)
          return false
        }
        // The kernel lives: a full disk is no reason to end it.
        this.#port.log(`no host can be started for kernel ${this.#port.kernelId} now: ${reason}`)
        await this.#pause(PASSING_MS)
        if (this.#abort.signal.aborted) return false
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        this.#abort.signal.removeEventListener('abort', done)
        resolve()
      }
      const cancel = this.#port.clock.after(ms, done)
      this.#abort.signal.addEventListener('abort', done, { once: true })
    })
  }
}
