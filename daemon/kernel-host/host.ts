/**
 * The host of one kernel: puts its parts together and owns the kernel's states, starting → ready → dead.
 *
 * Races settled here: the kernel may end before, while and after it is asked to; its end is told once, behind everything it
 * printed. A host that adopts goes on from spool and send log of the one before it.
 */
import { readFileSync, rmSync } from 'node:fs'
import type { Clock } from '../../protocol/clock.ts'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { HOST_API_VERSION, HostEvent, type HostLaunch, type HostStatus } from '../../protocol/kernel-host.ts'
import { VERSION } from '../../protocol/version.ts'
import type { ConnectionInfo } from './connection-file.ts'
import { Conversation } from './conversation.ts'
import { EventStream } from './event-stream.ts'
import { type KernelFolder, lastLines, trimLog } from './folder.ts'
import { writeHostRecord } from './host-record.ts'
import type { KernelExit, KernelProcess } from './kernel-process.ts'
import { type Launched, launchOnTcp, tryAgainOnTcp } from './launch.ts'
import { OrphanGrace } from './orphan-grace.ts'
import { outOfMemory, readOomKills } from './out-of-memory.ts'
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
  readonly #oomKills = readOomKills()
  readonly #dead: Promise<void>
  #resolveDead: () => void = () => {}
  #process: KernelProcess
  #info: ConnectionInfo
  #pressure: Pressure
  #state: 'starting' | 'ready' | 'dead' = 'starting'
  #ending: Promise<void> | null = null
  #attempt = 1
  #diedSeq: number | null = null
  #leaving = false

  constructor(
    folder: KernelFolder,
    launch: HostLaunch,
    launched: Launched,
    clock: Clock,
    log: (message: string) => void,
  ) {
    this.#folder = folder
    this.#launch = launch
    this.#clock = clock
    this.#log = log
    this.#process = launched.process
    this.#info = launched.info
    this.#dead = new Promise((resolve) => {
      this.#resolveDead = resolve
    })
    this.#spool = new Spool(folder.spool)
    this.#pressure = new Pressure(launched.process)
    this.#events = new EventStream({
      spool: this.#spool,
      firstSeq: launch.first_seq,
      clock,
      pressure: (bytes, diskRefuses) => this.#pressure.update(bytes, diskRefuses),
      trouble: log,
    })
    this.#conversation = new Conversation({
      clock,
      kernelId: launch.kernel_id,
      sends: new SendLog(folder.sends),
      adopted: launch.adopt !== undefined,
      event: (event) => this.#events.push(event),
      ready: (info) => this.#ready(info),
      changed: () => this.#orphan.update({ idle: this.#conversation.idle }),
      disconnected: () => this.#process.check(),
      log,
    })
    this.#orphan = new OrphanGrace(clock, launch.orphan_grace_ms, () => {
      log('no daemon for the orphan grace: ending the idle kernel')
      void this.#end(ORPHAN_END_MS).then(() => this.#leave())
    })
    // A kernel that is still starting is not idle.
    this.#orphan.update({ daemon: false, idle: false })
    if (launch.adopt !== undefined) writeHostRecord(folder, launch, launched.process.identity)
    this.#server = this.#serve()
    if (launch.adopt === undefined) {
      this.#attach()
      this.#giveUpStarting()
    } else this.#adopt()
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
    if (!kernel.gone) this.#conversation.connect(this.#info)
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
    const pid = this.#process.identity?.pid
    if (this.#state !== 'starting' || pid === undefined) return
    this.#state = 'ready'
    this.#events.push({ kind: 'ready', pid, info })
    this.#orphan.update({ idle: this.#conversation.idle })
  }

  async #interrupt(): Promise<Record<string, never>> {
    if (this.#state === 'dead')
      throw new RoomdError('kernel_died', 'there is nothing to interrupt: the kernel has ended')
    // A stopped kernel could not act on it.
    this.#pressure.suspend()
    const bySignal = this.#launch.interrupt_mode === 'signal'
    await this.#conversation.interrupt(bySignal ? () => this.#process.interrupt() : null)
    return {}
  }

  /** shutdown_request, SIGTERM, SIGKILL, within `graceMs`; resolves when kernel and tree are gone. One flight. */
  #end(graceMs: number): Promise<void> {
    this.#ending ??= this.#endOnce(graceMs)
    return this.#ending
  }

  async #endOnce(graceMs: number): Promise<void> {
    this.#pressure.suspend()
    if (this.#state === 'ready' || this.#launch.adopt !== undefined) {
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
    const lines = exit.error ?? lastLines(this.#folder.kernelLog)
    const early = this.#state === 'starting' && this.#ending === null && this.#launch.adopt === undefined
    // What it started goes with it.
    kernel.kill()
    if (early && tryAgainOnTcp(this.#info, this.#attempt++, lines)) {
      this.#log(`the kernel did not come up on ${this.#info.transport}, trying tcp: ${lines}`)
      return this.#relaunch()
    }
    await this.#conversation.quiet()
    const oom = exit.signal === 'SIGKILL' && this.#ending === null && outOfMemory(this.#oomKills)
    const seq = this.#events.push({
      kind: 'died',
      code: exit.code,
      signal: exit.signal,
      stderr: lines,
      expected: this.#ending !== null,
      ...(oom ? { out_of_memory: true } : {}),
    })
    this.#buried(seq)
  }

  async #relaunch(): Promise<void> {
    this.#conversation.close()
    const { info, process: kernel } = await launchOnTcp(this.#folder, this.#launch)
    this.#info = info
    this.#process = kernel
    this.#pressure = new Pressure(kernel)
    this.#attach()
    // Its end was asked for in between.
    if (this.#ending !== null) kernel.kill()
  }

  /** The kernel is gone and its `died` has a number. */
  #buried(diedSeq: number): void {
    this.#state = 'dead'
    this.#diedSeq = diedSeq
    this.#conversation.dispose()
    this.#orphan.dispose()
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
    }
  }

  #told(): HostStatus['state'] {
    if (this.#state === 'dead') return 'dead'
    // An adopted kernel was ready before; what it waits with its answer for is a cell that runs.
    if (this.#state === 'starting' && this.#launch.adopt === undefined) return 'starting'
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
    if (this.#info.transport === 'ipc')
      for (let port = 1; port <= 5; port++) rmSync(`${this.#info.ip}-${port}`, { force: true })
    process.exit(0)
  }
}

/** Reads the connection file of a kernel that is to be adopted. Throws when it is no connection file of ours. */
export function readConnection(folder: KernelFolder): ConnectionInfo {
  const info: unknown = JSON.parse(readFileSync(folder.connection, 'utf8'))
  if (typeof info !== 'object' || info === null || !('key' in info) || !('transport' in info))
    throw new Error(`${folder.connection} is no connection file`)
  return info as ConnectionInfo
}
