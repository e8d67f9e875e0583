/**
 * A kernel behind a kernel host, as the daemon's rooms use it. Owns what must survive connections and hosts: the requests that
 * have no answer yet (they are repeated with their ids; the host sends each once), the last event given, the last acknowledged.
 *
 * Races: events of an earlier subscription may still be on their way when a new one begins; everything up to the answer of the
 * new one is dropped. An interrupt is not repeated: on a second connection it could hit the next cell.
 */
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { BootId, KernelId, NotebookId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { KernelSummary } from '../../protocol/notebook.ts'
import { isAlive, type ProcessIdentity, signalProcess } from '../kernel-host/process-identity.ts'
import { killTree } from '../kernel-host/process-tree.ts'
import { type Died, describeDeath, startFailed } from './death.ts'
import type { HostConnection } from './host-connection.ts'
import { HostLink, type HostTarget } from './host-link.ts'
import type { Kernel, KernelRequest } from './kernel.ts'
import { OpenRequests } from './open-requests.ts'
import { isPassing } from './passing.ts'

export interface HostedKernelOptions {
  readonly id: KernelId
  readonly notebookId: NotebookId
  readonly name: string
  readonly language: string
  readonly startedAt: number
  readonly socket: string
  readonly bootId: BootId
  readonly clock: Clock
  readonly target: HostTarget
  /** Known from the store or `host.json` for an adopted kernel. */
  readonly process: ProcessIdentity | null
  /** true: follow events at once, to learn when the kernel is ready. */
  readonly starting: boolean
  /** The kernel's process as its host recorded it on disk, for when no host can be asked. */
  recorded(): ProcessIdentity | null
  /** A new host for the kernel, whose events go on behind `last`. */
  replace(last: number): Promise<HostTarget>
  /** Kernel and host are gone for good and everything was taken note of: row and folder may go. */
  ended(kernel: HostedKernel): Promise<void>
  log(message: string): void
}

const DEFAULT_GRACE_MS = 5_000
const HOST_EXIT_MS = 3_000
const LINK_WAIT_MS = 10_000
const LOOK_MS = 10
const ACKNOWLEDGE_MS = 50

export class HostedKernel implements Kernel {
  readonly id: KernelId
  readonly notebookId: NotebookId
  readonly name: string
  readonly language: string
  /** Resolves with the first `ready`; rejects `kernel_start_failed` when the kernel ends before. */
  readonly ready: Promise<void>
  readonly #options: HostedKernelOptions
  readonly #link: HostLink
  readonly #requests = new OpenRequests()
  #listener: ((event: HostEvent) => void) | null = null
  #seq = 0
  /** Highest seq ever seen, given to the listener or not. */
  #seen = 0
  #subscribed: 'no' | 'asked' | 'yes' = 'no'
  /** Counts subscriptions asked for: only the answer to the last one opens the stream. */
  #subscription = 0
  #acknowledged = 0
  #cancelAcknowledge: (() => void) | null = null
  #state: KernelSummary['state']
  #process: ProcessIdentity | null
  /** A remote kernel: why its host has no connection to it just now. */
  #trouble: string | null = null
  #died: Died | null = null
  /** undefined: as it was launched. */
  #graceMs: number | null | undefined
  #ending: Promise<void> | null = null
  #finishing: Promise<void> | null = null
  #settleReady: { resolve: () => void; reject: (error: RoomdError) => void } | null = null

  constructor(options: HostedKernelOptions) {
    this.#options = options
    this.id = options.id
    this.notebookId = options.notebookId
    this.name = options.name
    this.language = options.language
    this.#process = options.process
    this.#state = options.starting ? 'starting' : 'unknown'
    this.ready = new Promise((resolve, reject) => {
      this.#settleReady = { resolve, reject }
    })
    // Only who starts a kernel waits for it.
    this.ready.catch(() => {})
    this.#link = new HostLink(
      {
        kernelId: options.id,
        bootId: options.bootId,
        socket: options.socket,
        clock: options.clock,
        connected: (connection) => this.#connected(connection),
        disconnected: () => {
          this.#subscribed = 'no'
        },
        event: (event) => this.#event(event),
        replace: () => options.replace(Math.max(this.#seen, this.#seq, this.#acknowledged)),
        passing: isPassing,
        // Of a kernel that was asked to end nothing more is wanted.
        over: () => this.#died !== null && (this.#ending !== null || this.#acknowledged >= this.#died.seq),
        lost: (reason) => this.#lost(reason),
        log: options.log,
      },
      options.target,
    )
  }

  get seq(): number {
    return this.#seq
  }

  get process(): ProcessIdentity | null {
    return this.#process
  }

  summary(): KernelSummary {
    const { id, name, language } = this
    return {
      kernel_id: id,
      name,
      language,
      state: this.#ending !== null && this.#state !== 'dead' ? 'stopping' : this.#state,
      pid: this.#process?.pid ?? null,
      host_pid: this.#link.host.pid,
      started_at: this.#options.startedAt,
      ...this.#reason(),
    }
  }

  #reason(): { reason?: string } {
    if (this.#died !== null) return { reason: describeDeath(this.#died) }
    return this.#trouble === null ? {} : { reason: `reconnecting: ${this.#trouble}` }
  }

  /** Resolves when a host has answered, or when that takes longer than `ms`. */
  async reached(ms: number): Promise<void> {
    await this.#linked(ms).catch(() => {})
  }

  listen(since: number, listener: (event: HostEvent) => void): void {
    this.#listener = listener
    this.#seq = since
    this.#acknowledged = Math.max(this.#acknowledged, since)
    this.#subscribed = 'no'
    const connection = this.#link.connection
    if (connection !== null) this.#subscribe(connection)
  }

  acknowledge(seq: number): void {
    if (seq <= this.#acknowledged) return
    this.#acknowledged = seq
    // The host only trims its disk by it: many acknowledgements are one message.
    this.#cancelAcknowledge ??= this.#options.clock.after(ACKNOWLEDGE_MS, () => this.#tellAcknowledged())
    if (this.#died !== null && seq >= this.#died.seq) void this.#finish()
  }

  send(request: KernelRequest): Promise<{ alreadySent: boolean }> {
    if (this.#died !== null) return Promise.reject(this.#gone())
    return this.#requests.send(request, this.#link.connection)
  }

  ask(
    msgType: string,
    content: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<Record<string, unknown>> {
    if (this.#died !== null) return Promise.reject(this.#gone())
    return this.#requests.ask(msgType, content, this.#link.connection, signal)
  }

  async interrupt(): Promise<void> {
    if (this.#died !== null) throw this.#gone()
    const connection = await this.#linked(LINK_WAIT_MS)
    await connection.request('interrupt', {})
  }

  keepFor(graceMs: number | null): void {
    this.#graceMs = graceMs
    const connection = this.#link.connection
    if (connection !== null) this.#tellGrace(connection)
  }

  shutdown(graceMs = DEFAULT_GRACE_MS): Promise<void> {
    this.#ending ??= this.#shutdown(graceMs)
    return this.#ending
  }

  release(): void {
    void this.#link.dispose()
    this.#listener = null
    const error = new RoomdError('shutting_down', 'the daemon lets go of the kernel, which goes on')
    this.#requests.rejectAll(error)
  }

  #connected(connection: HostConnection): void {
    if (this.#listener !== null || this.#options.starting) this.#subscribe(connection)
    this.#tellAcknowledged()
    this.#tellGrace(connection)
    this.#requests.repeat(connection)
    connection.call(
      'status',
      {},
      ({ status }) => {
        if (status.pid !== null) this.#process = { pid: status.pid, started: status.pid_started }
        if (this.#state === 'unknown') this.#state = status.state
        this.#trouble = status.trouble ?? null
      },
      (error) => this.#options.log(`the host of kernel ${this.id} told no status: ${error.message}`),
    )
  }

  /** On every connection: a host that replaced another knows only what was launched. */
  #tellGrace(connection: HostConnection): void {
    if (this.#graceMs === undefined) return
    connection.call(
      'configure',
      { orphan_grace_ms: this.#graceMs },
      () => {},
      (error) => this.#options.log(`the host of kernel ${this.id} keeps its old grace: ${error.message}`),
    )
  }

  #subscribe(connection: HostConnection): void {
    this.#subscribed = 'asked'
    const subscription = ++this.#subscription
    connection.call(
      'subscribe',
      { since: this.#seq },
      () => {
        if (subscription === this.#subscription) this.#subscribed = 'yes'
      },
      // The connection ended, or another daemon took over: the link goes on from there.
      (error) => this.#options.log(`subscribing to kernel ${this.id} failed: ${error.message}`),
    )
  }

  #tellAcknowledged(): void {
    this.#cancelAcknowledge?.()
    this.#cancelAcknowledge = null
    const seq = this.#acknowledged
    if (seq === 0) return
    this.#link.connection?.call(
      'acknowledge',
      { seq },
      () => {},
      // It is told again on the next connection.
      () => {},
    )
  }

  #event(event: HostEvent): void {
    if (this.#subscribed !== 'yes' || event.seq <= (this.#listener === null ? 0 : this.#seq)) return
    this.#seen = Math.max(this.#seen, event.seq)
    this.#note(event)
    const listener = this.#listener
    if (listener === null) return
    this.#seq = event.seq
    listener(event)
  }

  /** What the kernel's own picture takes from an event. Seeing one twice does no harm. */
  #note(event: HostEvent): void {
    this.#requests.note(event)
    switch (event.kind) {
      case 'ready':
        if (this.#state === 'starting' || this.#state === 'unknown') this.#state = 'idle'
        this.#settleReady?.resolve()
        return
      case 'message': {
        const { channel, msg_type, content } = event.message
        if (
          channel === 'iopub' &&
          msg_type === 'status' &&
          this.#state !== 'starting' &&
          this.#state !== 'dead'
        ) {
          if (content.execution_state === 'busy' || content.execution_state === 'idle')
            this.#state = content.execution_state
        }
        return
      }
      case 'died':
        this.#noteDeath(event)
        return
      case 'connection':
        this.#trouble = event.trouble
        return
      case 'settled':
      case 'gap':
        return
    }
  }

  #noteDeath(event: Died): void {
    if (this.#died !== null) return
    this.#died = event
    this.#state = 'dead'
    this.#settleReady?.reject(startFailed(this.name, event))
    this.#requests.rejectAll(this.#gone())
  }

  #gone(): RoomdError {
    const why = this.#died === null ? 'it was ended' : describeDeath(this.#died)
    return new RoomdError('kernel_died', `the kernel has ended (${why}); restart it`)
  }

  /** No host can be had any more: the kernel is of no use to anybody. */
  #lost(reason: string): void {
    this.#options.log(`kernel ${this.id} is lost: ${reason}`)
    this.#killKernel()
    this.#inventDeath(`the kernel's host is lost: ${reason}`, false)
  }

  #killKernel(): void {
    const kernel = this.#process ?? this.#options.recorded()
    if (kernel !== null) killTree(kernel, this.id)
  }

  #inventDeath(stderr: string, expected: boolean): void {
    if (this.#died !== null) return
    const event: Died = {
      kind: 'died',
      seq: Math.max(this.#seen, this.#seq) + 1,
      at: this.#options.clock.now(),
      code: null,
      signal: null,
      stderr,
      expected,
    }
    this.#noteDeath(event)
    this.#seen = event.seq
    if (this.#listener === null) return
    this.#seq = event.seq
    this.#listener(event)
  }

  async #shutdown(graceMs: number): Promise<void> {
    try {
      const connection = await this.#linked(graceMs)
      await this.#within(connection.request('shutdown', { grace_ms: graceMs }), graceMs + HOST_EXIT_MS)
    } catch (error) {
      this.#options.log(
        `the host did not end kernel ${this.id} (${error instanceof Error ? error.message : String(error)}); ending it by signal`,
      )
      this.#killKernel()
    }
    this.#inventDeath('', true)
    await this.#finish()
  }

  /** One flight: waits for the host's end, then the provider forgets the kernel. */
  #finish(): Promise<void> {
    this.#finishing ??= (async () => {
      // The acknowledgement of `died` is what lets a host go.
      this.#tellAcknowledged()
      const { clock } = this.#options
      const deadline = clock.now() + HOST_EXIT_MS
      while (isAlive(this.#link.host) && clock.now() < deadline)
        await new Promise<void>((resolve) => clock.after(LOOK_MS, resolve))
      await this.#link.dispose()
      signalProcess(this.#link.host, 'SIGKILL')
      await this.#options.ended(this)
    })()
    return this.#finishing
  }

  #linked(ms: number): Promise<HostConnection> {
    return this.#within(this.#link.connected(), ms)
  }

  #within<T>(promise: Promise<T>, ms: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const cancel = this.#options.clock.after(ms, () =>
        reject(
          new RoomdError('runtime_not_ready', `the kernel's host did not answer within ${ms} ms; try again`),
        ),
      )
      promise.then(resolve, reject).finally(cancel)
    })
  }
}
