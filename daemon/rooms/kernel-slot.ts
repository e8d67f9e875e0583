/**
 * The kernel of one room: none, starting, running or ending. Owns the single flight of starting, the pause after a failure,
 * keep-alive, and the teardown fence.
 *
 * Races: a kernel that is being ended is never handed out (who asks waits and gets a fresh one); teardown checks its fence
 * synchronously before each destructive step, so that a peer that arrives in between keeps the kernel or waits for the next.
 */
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { KernelSummary } from '../../protocol/notebook.ts'
import { type Died, deathInWords } from '../kernels/death.ts'
import type { Kernel, KernelProvider, StartRequest } from '../kernels/kernel.ts'

/** Pause after a failed start before the next one. */
export const START_PAUSE_MS = 5_000
/** What a kernel whose start was called off, or failed, gets to end in order. */
const ABORTED_GRACE_MS = 1_000
export const DEFAULT_KEEP_ALIVE_MS = 30 * 60_000

type State =
  | {
      readonly kind: 'none'
      readonly failed: { readonly error: RoomdError; readonly at: number } | null
      /** The last kernel, if it ended by itself: shown until another starts or the end is asked for. */
      readonly dead: KernelSummary | null
    }
  | {
      readonly kind: 'starting'
      readonly name: string
      readonly flight: Promise<Kernel>
      readonly abort: AbortController
    }
  | { readonly kind: 'running'; readonly kernel: Kernel }
  | { readonly kind: 'ending'; readonly kernel: Kernel; readonly flight: Promise<void> }

export type Ending = 'died' | 'restarted' | 'shutdown'

export interface KernelSlotPort {
  readonly clock: Clock
  readonly kernels: KernelProvider
  /** Name and folder for the next start. */
  startRequest(wanted: string | undefined, signal: AbortSignal): Promise<StartRequest>
  /** Runs in the new kernel before anything else does. A rejection ends it: the start has failed. */
  prepare(kernel: Kernel, signal: AbortSignal): Promise<void>
  /** The slot's picture changed; tells peers. */
  changed(): void
  /**
   * Takes the kernel's events, in order, from what the store has consumed. false: not now (nothing can be stored); this one and
   * all behind it are told again after the next `listen`.
   */
  event(kernel: Kernel, event: HostEvent): boolean
  /** The cell that runs; null: code of no cell; undefined: nothing runs. */
  runningCell(): string | null | undefined
  /** The kernel ran out of memory. `what`: in words. Returns what to add to them. */
  ranOutOfMemory(what: string): string
  /** A kernel came up. */
  started(kernel: Kernel): void
  /** Resolves when everything that is pending is durable. */
  settled(): Promise<void>
  /** The kernel is over: open executions end. */
  ended(reason: string, ending: Ending): void
  startFailed(error: RoomdError): void
  /** Fence: no peers, no reservations, nothing running, queued or waiting. */
  idle(): boolean
  /** Advances with every attach. */
  generation(): number
  /** null: pinned. */
  keepAliveMs(): number | null
}

export class KernelSlot {
  readonly #port: KernelSlotPort
  #state: State = nothing()
  #cancelTeardown: (() => void) | null = null
  #disposed = false

  constructor(port: KernelSlotPort) {
    this.#port = port
  }

  get present(): Kernel | null {
    return this.#state.kind === 'running' ? this.#state.kernel : null
  }

  get runtime(): 'none' | 'launching' | 'ready' | 'failed' {
    const state = this.#state
    if (state.kind === 'none') return state.failed ? 'failed' : 'none'
    return state.kind === 'starting' ? 'launching' : 'ready'
  }

  /** `busy` is the caller's to say: whether something runs. */
  summary(busy: boolean): KernelSummary | null {
    switch (this.#state.kind) {
      case 'none':
        return this.#state.dead
      case 'starting':
        return null
      case 'running':
        return { ...this.#state.kernel.summary(), state: busy ? 'busy' : 'idle' }
      case 'ending':
        return { ...this.#state.kernel.summary(), state: 'stopping' }
    }
  }

  /** The running kernel, or the one being started, or a new one. Rejects kernel_not_found, kernel_start_failed. */
  async want(name?: string): Promise<Kernel> {
    const state = this.#state
    switch (state.kind) {
      case 'running':
        return state.kernel
      case 'starting':
        return state.flight
      case 'ending':
        await state.flight
        return this.want(name)
      case 'none':
        return this.#start(name, state.failed)
    }
  }

  /** Takes over a kernel that outlived the daemon; the caller then says `listen`. */
  adopt(kernel: Kernel): void {
    this.#state = { kind: 'running', kernel }
    this.#port.changed()
  }

  /** Starts the stream of the kernel's events after `since`. */
  listen(since: number): void {
    const state = this.#state
    if (state.kind !== 'running') return
    const { kernel } = state
    kernel.listen(since, (event) => {
      // What belongs to a kernel that is no longer this room's is nobody's.
      const now = this.#state
      if ((now.kind !== 'running' && now.kind !== 'ending') || now.kernel !== kernel) return
      const ran = event.kind === 'died' ? this.#port.runningCell() : undefined
      if (!this.#port.event(kernel, event)) return
      // The kernel's summary tells of it.
      if (event.kind === 'connection') this.#port.changed()
      if (event.kind === 'died' && this.#state.kind === 'running') this.#died(kernel, event, ran)
    })
  }

  #died(kernel: Kernel, event: Died, ran: string | null | undefined): void {
    const what = deathInWords(event, ran)
    const more = event.out_of_memory === true && !event.expected ? this.#port.ranOutOfMemory(what) : ''
    const dead: KernelSummary = { ...kernel.summary(), state: 'dead', pid: null, host_pid: null }
    // Ended by its orphan grace or by the user's own `exit()` of a process: nothing went wrong that has to stay in sight.
    this.#state = nothing(event.expected ? null : { ...dead, reason: `${what}${more}` })
    this.#port.ended(what, 'died')
    this.#port.changed()
  }

  /** Ends the kernel, if there is one. false: there was none. */
  async end(ending: Ending, reason: string, graceMs?: number): Promise<boolean> {
    const state = this.#state
    switch (state.kind) {
      case 'none':
        if (state.dead !== null) {
          this.#state = nothing()
          this.#port.changed()
        }
        return false
      case 'ending':
        await state.flight
        return true
      case 'starting':
        // A kernel that hangs while it starts must not hold up who wants it gone.
        this.#port.ended(reason, ending)
        state.abort.abort(reason)
        await state.flight.catch(() => undefined) // its failure was told to who asked for it
        await this.end(ending, reason, graceMs) // it may have been ready in that very moment
        return true
      case 'running': {
        const { kernel } = state
        // Executions end at once, not when the process is gone.
        this.#port.ended(reason, ending)
        const flight = kernel.shutdown(graceMs).finally(() => {
          this.#state = nothing()
          this.#port.changed()
        })
        this.#state = { kind: 'ending', kernel, flight }
        this.#port.changed()
        await flight
        return true
      }
    }
  }

  /** Called when the room may have become idle: begins counting down to teardown. */
  consider(): void {
    this.#cancelTeardown?.()
    this.#cancelTeardown = null
    const keepAlive = this.#port.keepAliveMs()
    if (this.#disposed || keepAlive === null || this.#state.kind !== 'running' || !this.#port.idle()) return
    const { kernel } = this.#state
    const generation = this.#port.generation()
    /** The fence. Nothing may come between it and the step it guards. */
    const stillSo = (): boolean =>
      this.#state.kind === 'running' &&
      this.#state.kernel === kernel &&
      this.#port.idle() &&
      this.#port.generation() === generation
    this.#cancelTeardown = this.#port.clock.after(keepAlive, () => {
      if (!stillSo()) return
      this.#port
        .settled()
        .then(async () => {
          if (stillSo()) await this.end('shutdown', 'the room was idle for its keep-alive time')
          else this.consider()
        })
        .catch(() => this.consider())
    })
  }

  /** Lets go; the kernel lives on. */
  dispose(): void {
    this.#disposed = true
    this.#cancelTeardown?.()
    if (this.#state.kind === 'running' || this.#state.kind === 'ending') this.#state.kernel.release()
  }

  async #start(name: string | undefined, failed: { error: RoomdError; at: number } | null): Promise<Kernel> {
    // Nobody would hear of it, and nobody would end it.
    if (this.#disposed) throw new RoomdError('shutting_down', 'the room was let go; open it again')
    const pause = failed ? failed.at + START_PAUSE_MS - this.#port.clock.now() : 0
    const abort = new AbortController()
    const flight = this.#launch(name, pause, abort.signal)
    this.#state = { kind: 'starting', name: name ?? '', flight, abort }
    this.#port.changed()
    return flight
  }

  async #launch(name: string | undefined, pauseMs: number, signal: AbortSignal): Promise<Kernel> {
    try {
      await this.#pause(pauseMs, signal)
      const request = await this.#port.startRequest(name, signal)
      const kernel = await this.#port.kernels.start({ ...request, signal })
      if (!this.#disposed) await this.#prepare(kernel, signal)
      if (this.#disposed) {
        // Who called the start off wants the kernel gone, whoever let go of the room meanwhile.
        if (signal.aborted) await kernel.shutdown(ABORTED_GRACE_MS)
        else kernel.release()
        throw new RoomdError('shutting_down', 'the daemon is stopping; the kernel is adopted by the next one')
      }
      this.#state = { kind: 'running', kernel }
      this.#port.started(kernel)
      this.listen(0)
      this.#port.changed()
      return kernel
    } catch (thrown) {
      const error =
        thrown instanceof RoomdError
          ? thrown
          : new RoomdError('kernel_start_failed', `the kernel did not start: ${String(thrown)}`)
      if (this.#disposed) {
        // Whoever waits in `end` for this start looks again: it must not find it still under way.
        this.#state = nothing()
      } else {
        // What was called off has not failed: who called it off has ended the executions, and the next start need not wait.
        this.#state = {
          kind: 'none',
          failed: signal.aborted ? null : { error, at: this.#port.clock.now() },
          dead: null,
        }
        if (!signal.aborted) this.#port.startFailed(error)
        this.#port.changed()
      }
      throw error
    }
  }

  async #prepare(kernel: Kernel, signal: AbortSignal): Promise<void> {
    try {
      await this.#port.prepare(kernel, signal)
      signal.throwIfAborted()
    } catch (error) {
      // A daemon that stops leaves the kernel to the next one.
      if (this.#disposed) return
      await kernel.shutdown(ABORTED_GRACE_MS)
      throw error
    }
  }

  /** Resolves after the pause, or at once when the start is called off. */
  #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms <= 0) return Promise.resolve()
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        signal.removeEventListener('abort', done)
        resolve()
      }
      const cancel = this.#port.clock.after(ms, done)
      signal.addEventListener('abort', done, { once: true })
    })
  }
}

function nothing(dead: KernelSummary | null = null): State {
  return { kind: 'none', failed: null, dead }
}
