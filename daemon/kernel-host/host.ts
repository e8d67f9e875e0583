/**
 * The host of one kernel: puts its parts together and owns the kernel's states, starting → ready → dead.
 *
 * Races settled here: the kernel may end before, while and after it is asked to; its end is told once, behind everything it
 * printed. A host that adopts goes on from spool and send log of the one before it.
 */
import { rmSync } from 'node:fs'
import type { Clock } from '../../protocol/clock.ts'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { HOST_API_VERSION, HostEvent, type HostLaunch, type HostStatus } from '../../protocol/kernel-host.ts'
import { VERSION } from '../../protocol/version.ts'
import { Conversation } from './conversation.ts'
import { EventStream } from './event-stream.ts'
import { type KernelFolder, lastLines, trimLog } from './folder.ts'
import { writeHostRecord } from './host-record.ts'
import type { KernelExit, KernelProcess } from './kernel-process.ts'
import type { KernelSide } from './kernel-side.ts'
import { MemoryWatch } from './memory-watch.ts'
import { OrphanGrace } from './orphan-grace.ts'
import { Pressure } from './pressure.ts'
import { residentMemory } from './process-identity.ts'
import { SendLog } from './send-log.ts'
import { HostServer } from './server.ts'
import { Spool } from './spool.ts'

/** How long what is not acknowledged is held ready for a daemon after the kernel's end. */
const FAREWELL_MS = 30_000
/** Without a daemon a kernel has this long to get ready; a daemon's own limit is shorter. */
const STARTING_MS = 180_000
const ORPHAN_END_MS = 5_000
const HOUSEKEEPING_MS = 10_000
/** Between two looks at a kernel that starts. */
const LOOK_MS = 2_000
const LOG_BYTES = 8 * 1024 * 1024

export class KernelHost {
  readonly #folder: KernelFolder
  readonly #launch: HostLaunch
  readonly #clock: Clock
  readonly #log: (message: string) => void
  readonly #spool: Spool
  readonly #events: EventStream
  readonly #conversation: Conversation
  readonly #orphan: OrphanGrace
  readonly #server: HostServer
  readonly #dead: Promise<void>
  #resolveDead: () => void = () => {}
  /** The kernel was there before this host. */
  readonly #adopted: boolean
  #side: KernelSide
  #process: KernelProcess
  #pressure: Pressure
  #memory: MemoryWatch
  #state: 'starting' | 'ready' | 'dead' = 'starting'
  #ending: Promise<void> | null = null
  #diedSeq: number | null = null
  #leaving = false

  constructor(
    folder: KernelFolder,
    launch: HostLaunch,
    side: KernelSide,
    clock: Clock,
    log: (message: string) => void,
  ) {
    this.#folder = folder
    this.#launch = launch
    this.#clock = clock
    this.#log = log
    this.#adopted = launch.adopt !== undefined || (launch.remote?.kernel_id ?? null) !== null
    this.#side = side
    this.#process = side.process
    this.#dead = new Promise((resolve) => {
      this.#resolveDead = resolve
    })
    this.#spool = new Spool(folder.spool)
    this.#pressure = new Pressure(side.process)
    this.#memory = new MemoryWatch(clock, side.process.identity?.pid ?? null)
    this.#events = new EventStream({
      spool: this.#spool,
      firstSeq: launch.first_seq,
      clock,
      pressure: (bytes, diskRefuses) => this.#pressure.update(bytes, diskRefuses),
      trouble: log,
    })
    this.#conversation = new Conversation({
      clock,
      // A remote kernel outlives this machine's failure, so the log of what it was sent must too.
      sends: new SendLog(folder.sends, { durable: side.remote }),
      adopted: this.#adopted,
      event: (event) => this.#events.push(event),
      ready: (info) => this.#ready(info),
      changed: () => {
        this.#orphan.update({ idle: this.#conversation.idle })
        this.#memory.busy(!this.#conversation.idle)
      },
      closed: () => this.#process.check(),
      log,
    })
    this.#orphan = new OrphanGrace(clock, launch.orphan_grace_ms, () => {
      log('no daemon for the orphan grace: ending the idle kernel')
      void this.#end(ORPHAN_END_MS).then(() => this.#leave())
    })
    // A kernel that is still starting is not idle.
    this.#orphan.update({ daemon: false, idle: false })
    if (this.#adopted && !side.remote) writeHostRecord(folder, launch, side.process.identity)
    this.#server = this.#serve()
    if (this.#adopted) this.#adopt()
    else {
      this.#attach()
      this.#giveUpStarting()
      this.#watchStart()
    }
    this.#housekeeping()
  }

  #serve(): HostServer {
    const { nonce, kernel_id, socket } = this.#launch
    return new HostServer({
      socket,
      welcome: {
        nonce,
        kernel_id,
        host_pid: process.pid,
        host_api_version: HOST_API_VERSION,
        version: VERSION,
      },
      events: this.#events,
      clock: this.#clock,
      actions: {
        status: () => ({ status: this.#status() }),
        send: (params) => this.#conversation.send(params),
        interrupt: () => this.#interrupt(),
        configure: ({ orphan_grace_ms }) => {
          this.#orphan.keepFor(orphan_grace_ms)
          return {}
        },
        shutdown: async ({ grace_ms }) => {
          await this.#end(grace_ms)
          await this.#events.given(this.#events.last)
          // Behind the answer, which goes out when this returns.
          setImmediate(() => void this.#leave())
          return {}
        },
      },
      connected: (count) => {
        this.#orphan.update({ daemon: count > 0 })
        if (count === 0) this.#farewell()
      },
      acknowledged: () => {
        if (this.#diedSeq !== null && this.#events.acknowledged >= this.#diedSeq) void this.#leave()
      },
      log: this.#log,
    })
  }

  /** Talks to the kernel and watches for its end. */
  #attach(): void {
    const kernel = this.#process
    void kernel.exited.then((exit) => this.#exited(kernel, exit))
    if (!kernel.gone) this.#conversation.connect(this.#side)
  }

  #adopt(): void {
    const [last] = this.#spool.last === 0 ? [] : this.#spool.read(this.#spool.last - 1, 1)
    const said = last === undefined ? undefined : HostEvent.safeParse(decode(last.payload)).data
    if (said?.kind === 'died') {
      // The kernel's story is complete; only the telling is left.
      this.#buried(said.seq)
      return
    }
    this.#events.push({
      kind: 'gap',
      reason: "the kernel's host died: what the kernel printed until now may be missing",
    })
    this.#process.resume()
    this.#attach()
    this.#conversation.takeOver()
  }

  #ready(info: Record<string, unknown>): void {
    const pid = this.#process.identity?.pid ?? null
    if (this.#state !== 'starting' || (pid === null && !this.#side.remote)) return
    this.#state = 'ready'
    this.#events.push({ kind: 'ready', pid, info })
    this.#orphan.update({ idle: this.#conversation.idle })
  }

  async #interrupt(): Promise<Record<string, never>> {
    if (this.#state === 'dead')
      throw new RoomdError('kernel_died', 'there is nothing to interrupt: the kernel has ended')
    // A stopped kernel could not act on it.
    this.#pressure.suspend()
    await this.#deliverInterrupt()
    return {}
  }

  async #deliverInterrupt(): Promise<void> {
    // A gateway knows the spec's mode itself.
    const bySignal = this.#side.remote || this.#launch.interrupt_mode === 'signal'
    const passedOn: (void | Promise<void>)[] = []
    await this.#conversation.interrupt(
      bySignal
        ? () => {
            passedOn.push(this.#process.interrupt())
          }
        : null,
    )
    await Promise.all(passedOn)
  }

  /** shutdown_request, SIGTERM, SIGKILL, within `graceMs`; resolves when kernel and tree are gone. One flight. */
  #end(graceMs: number): Promise<void> {
    this.#ending ??= this.#endOnce(graceMs)
    return this.#ending
  }

  async #endOnce(graceMs: number): Promise<void> {
    this.#pressure.suspend()
    if (this.#side.remote) {
      // The gateway asks the kernel itself, and ends it when it does not listen.
      this.#process.terminate()
      if (!(await this.#goneWithin(graceMs))) this.#process.kill()
      return this.#dead
    }
    if (this.#state === 'ready' || this.#adopted) {
      // A cell that runs would keep the kernel from seeing that it is to end, until patience is over.
      if (!this.#conversation.idle)
        this.#deliverInterrupt().catch((error: unknown) =>
          this.#log(`no interrupt before the end: ${String(error)}`),
        )
      this.#conversation.askToEnd()
      if (await this.#goneWithin(graceMs * 0.6)) return this.#dead
    }
    this.#process.terminate()
    if (!(await this.#goneWithin(graceMs * 0.4))) this.#process.kill()
    return this.#dead
  }

  #goneWithin(ms: number): Promise<boolean> {
    if (this.#process.gone) return Promise.resolve(true)
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, () => resolve(false))
      void this.#process.exited.then(() => {
        cancel()
        resolve(true)
      })
    })
  }

  async #exited(kernel: KernelProcess, exit: KernelExit): Promise<void> {
    if (this.#state === 'dead' || kernel !== this.#process) return
    // Of an adopted kernel the signal is not known.
    const killed = exit.signal === 'SIGKILL' || (exit.signal === null && exit.code === null)
    const ranOut = killed && exit.error === undefined && this.#ending === null && this.#memory.ranOut()
    const lines = exit.reason === undefined ? (exit.error ?? lastLines(this.#folder.kernelLog)) : ''
    const early = this.#state === 'starting' && this.#ending === null && !this.#adopted
    // What it started goes with it.
    if (!this.#side.remote) kernel.kill()
    const again = early ? this.#side.again(lines) : null
    if (again !== null) {
      this.#log(`the kernel did not come up, trying once more on tcp: ${lines}`)
      return this.#relaunch(again)
    }
    await this.#conversation.quiet()
    this.#conversation.close()
    const peak = this.#memory.peak
    const seq = this.#events.push({
      kind: 'died',
      code: exit.code,
      signal: exit.signal,
      stderr: lines,
      expected: this.#ending !== null,
      ...(ranOut ? { out_of_memory: true } : {}),
      ...(peak === null ? {} : { peak_memory: peak }),
      ...(exit.reason === undefined ? {} : { reason: exit.reason }),
    })
    this.#buried(seq)
  }

  async #relaunch(again: Promise<KernelSide>): Promise<void> {
    this.#conversation.close()
    this.#side = await again
    this.#process = this.#side.process
    this.#pressure = new Pressure(this.#process)
    this.#memory.dispose()
    this.#memory = new MemoryWatch(this.#clock, this.#process.identity?.pid ?? null)
    this.#attach()
    // Its end was asked for in between.
    if (this.#ending !== null) this.#process.kill()
  }

  /** The kernel is gone and its `died` has a number. */
  #buried(diedSeq: number): void {
    this.#state = 'dead'
    this.#diedSeq = diedSeq
    this.#conversation.dispose()
    this.#orphan.dispose()
    this.#memory.dispose()
    this.#resolveDead()
    this.#farewell()
  }

  #status(): HostStatus {
    const identity = this.#process.identity
    const alive = this.#state !== 'dead' && identity !== null
    return {
      kernel_id: this.#launch.kernel_id,
      nonce: this.#launch.nonce,
      host_pid: process.pid,
      pid: identity?.pid ?? null,
      pid_started: identity?.started ?? null,
      state: this.#told(),
      running: this.#conversation.running,
      last_seq: this.#events.last,
      acknowledged: this.#events.acknowledged,
      waiting_input: this.#conversation.waitingInput,
      memory: alive ? residentMemory(identity.pid) : null,
      ...(this.#conversation.trouble === null ? {} : { trouble: this.#conversation.trouble }),
      peak_memory: this.#memory.peak,
      ...(this.#launch.spec === undefined ? {} : { spec: this.#launch.spec }),
      ...(this.#launch.environment === undefined ? {} : { environment: this.#launch.environment }),
    }
  }

  #told(): HostStatus['state'] {
    if (this.#state === 'dead') return 'dead'
    // An adopted kernel was ready before; what it waits with its answer for is a cell that runs.
    if (this.#state === 'starting' && !this.#adopted) return 'starting'
    return this.#conversation.idle ? 'idle' : 'busy'
  }

  /** A dead kernel's host waits a while for a daemon that wants the rest; the spool keeps it beyond that. */
  #farewell(): void {
    if (this.#state !== 'dead') return
    this.#clock.after(FAREWELL_MS, () => {
      if (this.#server.connections === 0) void this.#leave()
    })
  }

  #giveUpStarting(): void {
    this.#clock.after(STARTING_MS, () => {
      if (this.#state !== 'starting') return
      if (this.#server.connections > 0) this.#giveUpStarting()
      else void this.#end(ORPHAN_END_MS).then(() => this.#leave())
    })
  }

  /** A kernel that has failed but does not end keeps nobody waiting. */
  #watchStart(): void {
    this.#clock.after(LOOK_MS, () => {
      if (this.#state !== 'starting') return
      if (this.#ending === null && !this.#process.gone && this.#side.stuck?.() === true) {
        this.#log('the kernel complained and did not end: ending it')
        this.#process.kill()
      }
      this.#watchStart()
    })
  }

  #housekeeping(): void {
    this.#clock.after(HOUSEKEEPING_MS, () => {
      try {
        trimLog(this.#folder.kernelLog, LOG_BYTES)
        trimLog(this.#folder.hostLog, LOG_BYTES)
      } catch (error) {
        // A full disk: the next round tries again.
        this.#log(`the logs were not trimmed: ${String(error)}`)
      }
      this.#housekeeping()
    })
  }

  async #leave(): Promise<void> {
    if (this.#leaving) return
    this.#leaving = true
    this.#events.flush()
    await this.#server.close()
    rmSync(this.#launch.socket, { force: true })
    this.#side.cleanUp()
    process.exit(0)
  }
}
