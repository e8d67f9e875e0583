/**
 * The host of one kernel: puts its parts together and owns the kernel's states, starting → ready → dead.
 *
 * Races settled here: the kernel may end before, while and after it is asked to; `#ended` runs once and everything printed before
 * the end is numbered before `died`. A host that adopts goes on from spool and send log of the one before it.
 */
import { randomUUID } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../protocol/clock.ts'
import { decode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { HostEvent, type HostLaunch, type HostStatus } from '../../protocol/kernel-host.ts'
import { VERSION } from '../../protocol/version.ts'
import { Channels } from './channels.ts'
import type { Channel, ConnectionInfo } from './connection-file.ts'
import { EventStream } from './event-stream.ts'
import { type KernelFolder, lastLines, trimLog } from './folder.ts'
import { writeHostRecord } from './host-record.ts'
import { Interrupt } from './interrupt.ts'
import { decodeMessage, dictionary, encodeMessage, type OutgoingMessage } from './jupyter-message.ts'
import type { KernelExit, KernelProcess } from './kernel-process.ts'
import { type Launched, launchOnTcp, tryAgainOnTcp } from './launch.ts'
import { OrphanGrace } from './orphan-grace.ts'
import { outOfMemory, readOomKills } from './out-of-memory.ts'
import { preparation } from './preparation.ts'
import { Pressure } from './pressure.ts'
import { residentMemory } from './process-identity.ts'
import { Readiness } from './readiness.ts'
import { SendLog } from './send-log.ts'
import { HostServer } from './server.ts'
import { Settling } from './settling.ts'
import { Spool } from './spool.ts'
import { giantStream } from './stream-pieces.ts'

/** msg_ids of our own questions begin with it; their answers are nobody else's. */
const OWN = 'roomd-host-'
/** After the kernel's end: nothing more comes when nothing came for so long. */
const QUIET_MS = 30
/** How long what is not acknowledged is held ready for a daemon after the kernel's end. */
const FAREWELL_MS = 30_000
const STARTING_MS = 180_000
const HOUSEKEEPING_MS = 10_000
const KERNEL_LOG_BYTES = 8 * 1024 * 1024

export class KernelHost {
  readonly #folder: KernelFolder
  readonly #launch: HostLaunch
  readonly #clock: Clock
  readonly #log: (message: string) => void
  readonly #sends: SendLog
  readonly #events: EventStream
  readonly #settling: Settling
  readonly #interrupt: Interrupt
  readonly #orphan: OrphanGrace
  readonly #server: HostServer
  #process: KernelProcess
  #info: ConnectionInfo
  #channels: Channels | null = null
  #readiness: Readiness | null = null
  #pressure: Pressure
  #state: 'starting' | 'ready' | 'dead' = 'starting'
  #waitingInput = false
  #ending: Promise<void> | null = null
  #attempt = 1
  #diedSeq: number | null = null
  #leaving = false
  readonly #oomKills: number | null
  #resolveDead: () => void = () => {}
  readonly #dead: Promise<void>

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
    this.#oomKills = readOomKills()
    this.#dead = new Promise((resolve) => {
      this.#resolveDead = resolve
    })
    this.#sends = new SendLog(folder.sends)
    const spool = new Spool(folder.spool)
    this.#pressure = new Pressure(launched.process)
    this.#events = new EventStream({
      spool,
      firstSeq: launch.first_seq,
      clock,
      pressure: (bytes, diskRefuses) => this.#pressure.update(bytes, diskRefuses),
      trouble: log,
    })
    this.#interrupt = new Interrupt(clock)
    this.#settling = new Settling({
      clock,
      newId: () => `${OWN}${randomUUID()}`,
      probe: (msgId, msgType, content) => this.#transmit('shell', { msgId, msgType, content }),
      settled: (id, reply) => this.#settled(id, reply),
    })
    this.#orphan = new OrphanGrace(clock, launch.orphan_grace_ms, () => {
      log('no daemon for the orphan grace: ending the idle kernel')
      void this.#end(5_000).then(() => this.#leave())
    })
    // A kernel that is still starting is not idle.
    this.#orphan.update({ daemon: false, idle: false })
    this.#giveUpStarting()
    if (launch.adopt !== undefined) writeHostRecord(folder, launch, launched.process.identity)
    this.#server = new HostServer({
      socket: launch.socket,
      welcome: {
        nonce: launch.nonce,
        kernel_id: launch.kernel_id,
        host_pid: process.pid,
        host_api_version: 1,
        version: VERSION,
      },
      events: this.#events,
      clock,
      actions: {
        status: () => ({ status: this.#status() }),
        send: (params) => this.#send(params),
        interrupt: () => this.#interruptKernel(),
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
      log,
    })
    if (launch.adopt === undefined) this.#attach()
    else this.#adopt(spool)
    this.#housekeeping()
  }

  /** Connects to the kernel's channels and watches for its end. */
  #attach(): void {
    const kernel = this.#process
    void kernel.exited.then((exit) => this.#exited(kernel, exit))
    if (kernel.gone) return
    this.#channels = new Channels(this.#info, this.#launch.kernel_id, {
      message: (channel, parts) => this.#received(channel, parts),
      disconnected: () => kernel.check(),
    })
    this.#readiness = new Readiness(
      {
        clock: this.#clock,
        ask: () =>
          this.#transmit('shell', {
            msgId: `${OWN}${randomUUID()}`,
            msgType: 'kernel_info_request',
            content: {},
          }),
        ready: (info) => this.#ready(info),
      },
      this.#launch.adopt === undefined,
    )
    this.#readiness.start()
  }

  #adopt(spool: Spool): void {
    const [last] = spool.last === 0 ? [] : spool.read(spool.last - 1, 1)
    const said = last === undefined ? undefined : HostEvent.safeParse(decode(last.payload)).data
    if (said?.kind === 'died') {
      // Its story is told to the end; only the telling is left.
      this.#state = 'dead'
      this.#diedSeq = last?.seq ?? null
      this.#resolveDead()
      this.#farewell()
      return
    }
    this.#events.push({
      kind: 'gap',
      reason: "the kernel's host died: what the kernel printed until now may be missing",
    })
    this.#process.resume()
    this.#attach()
    if (!this.#process.gone) this.#settling.adopted(this.#sends.open())
    this.#orphan.update({ idle: this.#settling.idle })
  }

  #ready(info: Record<string, unknown>): void {
    const pid = this.#process.identity?.pid
    if (this.#state !== 'starting' || pid === undefined) return
    this.#state = 'ready'
    const code = this.#launch.adopt === undefined ? preparation(info) : null
    if (code !== null)
      this.#transmit('shell', {
        msgId: `${OWN}${randomUUID()}`,
        msgType: 'execute_request',
        content: { code, silent: true, store_history: false, user_expressions: {}, allow_stdin: false },
      })
    this.#events.push({ kind: 'ready', pid, info })
    this.#orphan.update({ idle: this.#settling.idle })
  }

  #received(channel: Channel, parts: Buffer[]): void {
    try {
      const { rawContent, ...message } = decodeMessage(parts, this.#info.key)
      if (channel === 'iopub') this.#readiness?.spoken()
      if (message.parentId?.startsWith(OWN)) {
        this.#answered(channel, message.msgType, message.parentId, dictionary(rawContent))
        return
      }
      const told = {
        channel,
        msg_type: message.msgType,
        msg_id: message.msgId,
        parent_id: message.parentId,
        metadata: message.metadata,
        buffers: message.buffers,
      }
      const pieces = giantStream(message.msgType, rawContent)
      if (pieces !== null) {
        for (const content of pieces)
          this.#events.push({ kind: 'message', message: { ...told, content, buffers: [] } })
        return
      }
      const content = dictionary(rawContent)
      this.#events.push({ kind: 'message', message: { ...told, content } })
      if (channel === 'shell' || channel === 'control') this.#settling.reply(message.parentId, content)
      else if (channel === 'stdin') this.#waitingInput = message.msgType === 'input_request'
      else if (message.msgType === 'status' && content.execution_state === 'idle')
        this.#settling.kernelIdle(message.parentId)
      else if (message.msgType === 'execute_input') this.#interrupt.begun(message.parentId)
    } catch (error) {
      const reason = `a message on ${channel} could not be read: ${error instanceof Error ? error.message : String(error)}`
      this.#log(reason)
      this.#events.push({ kind: 'gap', reason })
    }
  }

  /** A message that one of our own questions caused. */
  #answered(channel: Channel, msgType: string, parentId: string, content: Record<string, unknown>): void {
    if (channel === 'shell') {
      if (this.#settling.isProbe(parentId)) this.#settling.probeReply()
      else if (msgType === 'kernel_info_reply') this.#readiness?.answered(content)
    } else if (channel === 'iopub' && msgType === 'status' && content.execution_state === 'idle') {
      if (this.#settling.isProbe(parentId)) this.#settling.probeIdle()
    }
  }

  #settled(requestId: string, reply: Record<string, unknown> | null): void {
    this.#waitingInput = false
    this.#interrupt.settled(requestId)
    this.#events.push({ kind: 'settled', request_id: requestId, reply })
    this.#sends.settled(requestId)
    this.#orphan.update({ idle: this.#settling.idle })
  }

  #send(params: {
    request_id: string
    channel: 'shell' | 'control' | 'stdin'
    msg_type: string
    content: Record<string, unknown>
    metadata?: Record<string, unknown> | undefined
    parent_id?: string | null | undefined
    buffers?: Uint8Array[] | undefined
  }): { already_sent: boolean } {
    const { request_id: id, channel, msg_type: msgType, content, metadata, buffers } = params
    if (this.#sends.has(id)) return { already_sent: true }
    if (this.#state === 'dead' || this.#channels === null)
      throw new RoomdError('kernel_died', 'the kernel has ended; start it again')
    const sent = { id, channel, msgType }
    try {
      this.#sends.sending(sent)
    } catch (error) {
      throw new RoomdError(
        'storage_failed',
        `the request was not sent because its send log could not be written: ${String(error)}`,
      )
    }
    this.#transmit(channel, { msgId: id, msgType, content, metadata, parentId: params.parent_id, buffers })
    if (channel === 'stdin') this.#waitingInput = false
    this.#settling.sent(sent)
    this.#orphan.update({ idle: this.#settling.idle })
    return { already_sent: false }
  }

  #transmit(channel: 'shell' | 'control' | 'stdin', message: OutgoingMessage): void {
    this.#channels?.send(channel, encodeMessage(message, this.#info.key, this.#launch.kernel_id))
  }

  async #interruptKernel(): Promise<Record<string, never>> {
    if (this.#state === 'dead')
      throw new RoomdError('kernel_died', 'there is nothing to interrupt: the kernel has ended')
    // A stopped kernel could not act on it.
    this.#pressure.suspend()
    await this.#interrupt.deliver(this.#settling.running, () => {
      if (this.#launch.interrupt_mode === 'signal') this.#process.interrupt()
      else
        this.#transmit('control', {
          msgId: `${OWN}${randomUUID()}`,
          msgType: 'interrupt_request',
          content: {},
        })
    })
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
      this.#transmit('control', {
        msgId: `${OWN}${randomUUID()}`,
        msgType: 'shutdown_request',
        content: { restart: false },
      })
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
    if (early && tryAgainOnTcp(this.#info, this.#attempt++, lines)) {
      this.#log(`the kernel did not come up on ${this.#info.transport}, trying tcp: ${lines}`)
      return this.#relaunch()
    }
    kernel.kill()
    await this.#quiet()
    this.#readiness?.dispose()
    this.#state = 'dead'
    const oom = exit.signal === 'SIGKILL' && this.#ending === null && outOfMemory(this.#oomKills)
    this.#diedSeq = this.#events.push({
      kind: 'died',
      code: exit.code,
      signal: exit.signal,
      stderr: lines,
      expected: this.#ending !== null,
      ...(oom ? { out_of_memory: true } : {}),
    })
    this.#settling.dispose()
    this.#orphan.dispose()
    this.#channels?.close()
    this.#resolveDead()
    this.#farewell()
  }

  async #relaunch(): Promise<void> {
    this.#readiness?.dispose()
    this.#channels?.close()
    this.#process.kill()
    const { info, process: kernel } = await launchOnTcp(this.#folder, this.#launch)
    this.#info = info
    this.#process = kernel
    this.#pressure = new Pressure(kernel)
    this.#attach()
  }

  /** Waits until nothing comes from the channels any more: what a dead kernel sent is in our sockets, and all of it counts. */
  #quiet(): Promise<void> {
    const channels = this.#channels
    if (channels === null) return Promise.resolve()
    return new Promise((resolve) => {
      const look = (before: number): void => {
        this.#clock.after(QUIET_MS, () => {
          if (channels.received === before) resolve()
          else look(channels.received)
        })
      }
      look(channels.received)
    })
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
      running: this.#settling.running,
      last_seq: this.#events.last,
      acknowledged: this.#events.acknowledged,
      waiting_input: this.#waitingInput,
      memory: alive ? residentMemory(identity.pid) : null,
    }
  }

  #told(): HostStatus['state'] {
    // An adopted kernel was ready before; what it waits with its answer for is a cell that runs.
    if (this.#state === 'dead') return 'dead'
    if (this.#state === 'starting' && this.#launch.adopt === undefined) return 'starting'
    return this.#settling.idle ? 'idle' : 'busy'
  }

  /** A dead kernel's host waits a while for a daemon that wants the rest; the spool keeps it beyond that. */
  #farewell(): void {
    if (this.#state !== 'dead') return
    this.#clock.after(FAREWELL_MS, () => {
      if (this.#server.connections === 0) void this.#leave()
    })
  }

  /** A kernel that never gets ready ends with the daemon that wanted it: that daemon's own limit is shorter. */
  #giveUpStarting(): void {
    this.#clock.after(STARTING_MS, () => {
      if (this.#state !== 'starting' || this.#launch.adopt !== undefined) return
      if (this.#server.connections > 0) this.#giveUpStarting()
      else void this.#end(1_000).then(() => this.#leave())
    })
  }

  #housekeeping(): void {
    this.#clock.after(HOUSEKEEPING_MS, () => {
      trimLog(this.#folder.kernelLog, KERNEL_LOG_BYTES)
      trimLog(this.#folder.hostLog, KERNEL_LOG_BYTES)
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
    throw new Error(`${join(folder.path, 'connection.json')} is no connection file`)
  return info as ConnectionInfo
}
