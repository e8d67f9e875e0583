/**
 * A room and a kernel for tests of executions: the real store, a scripted kernel that keeps its events and its send log as a host does,
 * a clock that the test moves, and commits that the test can hold back to crash between any two.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'
import pino from 'pino'
import { afterAll } from 'vitest'
import { sourceHash } from '../../daemon/documents/source-hash.ts'
import { type Blobs, openBlobs } from '../../daemon/executions/blobs.ts'
import type { ExecutionLimits } from '../../daemon/executions/options.ts'
import { createExecutions } from '../../daemon/executions/room-executions.ts'
import type { Kernel, KernelRequest } from '../../daemon/kernels/kernel.ts'
import type { RoomChange, RoomExecutions, RoomPort } from '../../daemon/rooms/parts.ts'
import { writeShared } from '../../daemon/store/packed-rows.ts'
import { migrations } from '../../daemon/store/schema.ts'
import type { SqlValue, Store, StoreHealth, WriteUnit } from '../../daemon/store/store.ts'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import { CellId, type ExecutionId, KernelId, NotebookId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { KernelSummary, Output } from '../../protocol/notebook.ts'

export const log = pino({ level: process.env.ROOMD_LOG_LEVEL ?? 'silent' })

/** A clock that stands still until the test moves it. */
export class TestClock implements Clock {
  #now = 1_000_000
  #timers: { at: number; task: () => void }[] = []

  now(): number {
    return this.#now
  }

  after(ms: number, task: () => void): () => void {
    const timer = { at: this.#now + ms, task }
    this.#timers.push(timer)
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer)
    }
  }

  advance(ms: number): void {
    const end = this.#now + ms
    for (;;) {
      const [next] = this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)
      if (!next) break
      this.#timers = this.#timers.filter((timer) => timer !== next)
      this.#now = next.at
      next.task()
    }
    this.#now = end
  }
}

/** The store's contract on one connection: a unit is a transaction, written at once. For tests that crash or run thousands of times. */
export class DirectStore implements Store {
  readonly db: Database.Database

  constructor(file = ':memory:') {
    this.db = new Database(file)
    this.db.pragma('foreign_keys = ON')
    for (const migration of migrations) this.db.exec(migration)
  }

  all<Row>(sql: string, ...values: SqlValue[]): Row[] {
    return this.db.prepare(sql).all(...values) as Row[]
  }

  get<Row>(sql: string, ...values: SqlValue[]): Row | undefined {
    return this.db.prepare(sql).get(...values) as Row | undefined
  }

  async write(unit: WriteUnit): Promise<void> {
    this.db.transaction(() => {
      for (const { sql, values } of unit) this.db.prepare(sql).run(...values)
    })()
  }

  async writeShared(unit: WriteUnit, packed?: Uint8Array): Promise<void> {
    const run = (sql: string, ...values: SqlValue[]) => {
      const { changes, lastInsertRowid } = this.db.prepare(sql).run(...values)
      return { changes, id: Number(lastInsertRowid) }
    }
    const { all, get } = this
    const transaction = { all: all.bind(this) as typeof all, get: get.bind(this) as typeof get, run }
    this.db.transaction(() => writeShared(transaction, { unit, packed: packed ?? null }))()
  }

  async settled(): Promise<void> {}

  health(): StoreHealth {
    return { state: 'ok', size: 0, pending: 0 }
  }

  async close(): Promise<void> {
    this.db.close()
  }
}

/** A kernel with its host: events are kept until acknowledged, requests are sent at most once whatever is repeated. */
export class ScriptedKernel implements Kernel {
  readonly id = KernelId.parse(randomUUID())
  readonly name: string = 'scripted'
  readonly language: string = 'python'
  readonly sent: KernelRequest[] = []
  readonly repeated: KernelRequest[] = []
  interrupts = 0
  acknowledged = 0
  state: KernelSummary['state'] = 'idle'
  asked: string[] = []
  /** Runs when an execute_request is really sent. */
  onExecute: (id: ExecutionId, code: string) => void = () => {}
  onInterrupt: () => void = () => {}
  sendFails: RoomdError | null = null
  #events: HostEvent[] = []
  #listener: ((event: HostEvent) => void) | null = null
  #seq = 0
  #count = 0

  get seq(): number {
    return this.#seq
  }

  summary(): KernelSummary {
    const { id, name, language, state } = this
    return { kernel_id: id, name, language, state, pid: 1, host_pid: 2, started_at: 0 }
  }

  listen(since: number, listener: (event: HostEvent) => void): void {
    this.#listener = listener
    for (const event of this.#events) if (event.seq > since) listener(event)
  }

  acknowledge(seq: number): void {
    if (seq < this.acknowledged) throw new Error(`acknowledged ${seq} after ${this.acknowledged}`)
    this.acknowledged = seq
    this.#events = this.#events.filter((event) => event.seq > seq)
  }

  async send(request: KernelRequest): Promise<{ alreadySent: boolean }> {
    if (this.sendFails) throw this.sendFails
    if (this.sent.some((other) => other.requestId === request.requestId)) {
      this.repeated.push(request)
      return { alreadySent: true }
    }
    this.sent.push(request)
    if (request.msgType === 'execute_request')
      this.onExecute(request.requestId as ExecutionId, String(request.content.code))
    return { alreadySent: false }
  }

  async ask(msgType: string): Promise<Record<string, unknown>> {
    this.asked.push(msgType)
    return {}
  }

  async interrupt(): Promise<void> {
    this.interrupts++
    this.onInterrupt()
  }

  keepFor(): void {}

  async shutdown(): Promise<void> {}

  release(): void {
    this.#listener = null
  }

  // --- what the script says ------------------------------------------------------------------------------------------

  emit(event: Record<string, unknown> & { kind: HostEvent['kind'] }): void {
    const whole = { seq: ++this.#seq, at: 5_000 + this.#seq, ...event } as HostEvent
    this.#events.push(whole)
    this.#listener?.(whole)
  }

  say(parent: string | null, msg_type: string, content: Record<string, unknown>, channel = 'iopub'): void {
    this.emit({
      kind: 'message',
      message: {
        channel,
        msg_type,
        msg_id: `${msg_type}-${this.#seq}`,
        parent_id: parent,
        content,
        metadata: {},
        buffers: [],
      },
    })
  }

  begin(id: ExecutionId): void {
    this.say(id, 'status', { execution_state: 'busy' })
    this.say(id, 'execute_input', { code: '', execution_count: ++this.#count })
  }

  print(id: ExecutionId, text: string, name = 'stdout'): void {
    this.say(id, 'stream', { name, text })
  }

  display(id: ExecutionId, data: Record<string, unknown>, displayId?: string, type = 'display_data'): void {
    const transient = displayId === undefined ? {} : { display_id: displayId }
    this.say(id, type, { data, metadata: {}, transient })
  }

  fail(id: ExecutionId, ename = 'ValueError', evalue = 'bad'): void {
    this.say(id, 'error', { ename, evalue, traceback: [`${ename}: ${evalue}`] })
    this.end(id, { status: 'error', ename, evalue, traceback: [] })
  }

  end(id: ExecutionId, reply: Record<string, unknown> | null = { status: 'ok' }): void {
    this.say(id, 'status', { execution_state: 'idle' })
    this.emit({
      kind: 'settled',
      request_id: id,
      reply: reply && { execution_count: this.#count, payload: [], ...reply },
    })
  }

  die(signal = 'SIGKILL', stderr = 'last words'): void {
    this.emit({ kind: 'died', code: null, signal, stderr, expected: false })
  }
}

/** What peers would have made of the events: the outputs of every execution, by the protocol's words alone. */
export class Mirror {
  readonly outputs = new Map<string, Output[]>()
  readonly statuses = new Map<string, string[]>()

  apply(event: DurableEvent): void {
    switch (event.type) {
      case 'execution_queued':
        this.outputs.set(event.execution.execution_id, [])
        this.#status(event.execution.execution_id, 'queued')
        break
      case 'execution_started':
        this.#status(event.execution.execution_id, 'running')
        break
      case 'execution_finished':
        this.#status(event.execution.execution_id, event.execution.status)
        break
      case 'output': {
        const outputs = this.#of(event.execution_id)
        if (event.index > outputs.length) throw new Error(`output ${event.index} of ${outputs.length}`)
        outputs[event.index] = event.output
        break
      }
      case 'output_splice': {
        const output = this.#of(event.execution_id)[event.index]
        if (output?.output_type !== 'stream' || typeof output.text !== 'string')
          throw new Error(`a splice of output ${event.index}, which is no text`)
        if (event.from > output.text.length)
          throw new Error(`a splice at ${event.from} of ${output.text.length}`)
        output.text = output.text.slice(0, event.from) + event.text
        break
      }
      case 'outputs_cleared':
        this.#of(event.execution_id).length = 0
        break
      default:
        break
    }
  }

  /** Texts of an execution's outputs, for short assertions: `stdout:…`, `display:…`, `error:…`. */
  texts(id: string): string[] {
    return (this.outputs.get(id) ?? []).map(textOf)
  }

  #of(id: string): Output[] {
    const outputs = this.outputs.get(id)
    if (!outputs) throw new Error(`an event of the unknown execution ${id}`)
    return outputs
  }

  #status(id: string, status: string): void {
    this.statuses.set(id, [...(this.statuses.get(id) ?? []), status])
  }
}

export function textOf(output: Output): string {
  switch (output.output_type) {
    case 'stream':
      return `${output.name}:${typeof output.text === 'string' ? output.text : `${output.text.head}…${output.text.tail}`}`
    case 'display_data':
    case 'execute_result':
      return `${output.output_type === 'display_data' ? 'display' : 'result'}:${String(output.data['text/plain'])}`
    case 'error':
      return `error:${output.ename}`
  }
}

export interface TestRoomOptions {
  readonly store?: Store
  readonly blobs?: Blobs
  readonly id?: NotebookId
  readonly clock?: TestClock
  readonly kernel?: ScriptedKernel | null
  readonly limits?: Partial<ExecutionLimits>
  readonly mirror?: Mirror
}

/** Of rooms that no test has disposed of; a crash disposes of nothing. */
const folders = new Set<string>()
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** A room as executions see it: commits into the store, numbers events, tells them after the commit. */
export class TestRoom implements RoomPort {
  readonly id: NotebookId
  readonly store: Store
  readonly blobs: Blobs
  readonly clock: TestClock
  readonly cells = new Map<CellId, { cell_type: string; source: string; source_hash: string }>()
  readonly mirror: Mirror
  readonly told: DurableEvent[] = []
  readonly limits: Partial<ExecutionLimits>
  executions: RoomExecutions
  present: ScriptedKernel | null
  /** What `kernel()` does when there is none. */
  start: () => Promise<Kernel> = async () => {
    throw new RoomdError('kernel_start_failed', 'no kernel here')
  }
  commits = 0
  /** While true, commits wait for `release`. */
  holding = false
  #held: { unit: WriteUnit; events: readonly DurableEvent[]; resolve: () => void }[] = []
  #line: Promise<void> = Promise.resolve()
  #crashed = false
  readonly #folder: string | null

  constructor(options: TestRoomOptions = {}) {
    this.id = options.id ?? NotebookId.parse(randomUUID())
    this.store = options.store ?? new DirectStore()
    this.#folder = options.blobs ? null : mkdtempSync(join(tmpdir(), 'roomd-executions-'))
    if (this.#folder) folders.add(this.#folder)
    this.blobs = options.blobs ?? openBlobs(this.#folder ?? '')
    this.clock = options.clock ?? new TestClock()
    this.mirror = options.mirror ?? new Mirror()
    this.limits = options.limits ?? {}
    this.present = options.kernel === undefined ? new ScriptedKernel() : options.kernel
    if (!options.id) void this.store.write([roomRow(this.id)])
    if (this.present && !options.id) void this.store.write([kernelRow(this.present, this.id)])
    this.executions = this.#make()
    if (this.present) this.listen()
  }

  now(): number {
    return this.clock.now()
  }

  cell(cellId: CellId): { cell_type: string; source: string; source_hash: string } | undefined {
    return this.cells.get(cellId)
  }

  codeCells(): CellId[] {
    return [...this.cells].filter(([, cell]) => cell.cell_type === 'code').map(([id]) => id)
  }

  async kernel(): Promise<Kernel> {
    return this.present ?? (await this.start())
  }

  get presentKernel(): Kernel | null {
    return this.present
  }

  commit(change: RoomChange): Promise<void> {
    if (this.#crashed) return new Promise(() => {})
    const events = structuredClone(change.events ?? []) as DurableEvent[]
    return new Promise((resolve) => {
      this.#held.push({ unit: change.statements, events, resolve })
      if (!this.holding) this.release()
    })
  }

  /** Lets the next commits through (all, if no number is given), in order. */
  release(count = this.#held.length): void {
    for (const held of this.#held.splice(0, count)) {
      this.#line = this.#line.then(async () => {
        if (this.#crashed) return
        await this.store.write(held.unit)
        if (this.#crashed) return
        this.commits++
        for (const event of held.events) {
          this.told.push(event)
          this.mirror.apply(structuredClone(event))
        }
        held.resolve()
      })
    }
  }

  get held(): number {
    return this.#held.length
  }

  addCell(source: string, name = `cell-${this.cells.size}`, cell_type = 'code'): CellId {
    const id = CellId.parse(name)
    this.cells.set(id, { cell_type, source, source_hash: sourceHash(source) })
    return id
  }

  /** As the room does it: commits what `execute` says, then admits. */
  async run(
    cellOrCode: CellId | { code: string },
    onError: 'stop' | 'continue' = 'stop',
  ): Promise<ExecutionId> {
    const what = typeof cellOrCode === 'string' ? { cell_id: cellOrCode } : cellOrCode
    const made = this.executions.execute({ ...what, on_error: onError, allow_stdin: true, by: 'test' })
    const committed = this.commit({ statements: made.statements, events: made.events })
    await committed
    if (!made.already_active) this.executions.admitted([made.execution.execution_id])
    return made.execution.execution_id
  }

  async runAll(onError: 'stop' | 'continue' = 'stop'): Promise<ExecutionId[]> {
    const made = this.executions.runAll({ on_error: onError, allow_stdin: true, by: 'test' })
    await this.commit({ statements: made.statements, events: made.events })
    const ids = made.executions.map((execution) => execution.execution_id)
    this.executions.admitted(ids)
    return ids
  }

  listen(): void {
    const kernel = this.present
    if (!kernel) return
    const row = this.store.get<{ consumed_seq: number }>(
      'SELECT consumed_seq FROM kernels WHERE kernel_id = ?',
      kernel.id,
    )
    kernel.listen(row?.consumed_seq ?? 0, (event) => this.executions.kernelEvent(kernel, event))
  }

  /** Lets everything under way come to rest; moves the clock by `ms`. */
  async rest(ms = 100): Promise<void> {
    for (let passed = 0; passed <= ms; passed += 10) {
      await setImmediate()
      await setImmediate()
      this.clock.advance(passed < ms ? 10 : 0)
    }
    await setImmediate()
  }

  /** The daemon dies: what is not committed is gone. Another one takes over the store and the kernel. */
  crash(
    kernel: ScriptedKernel | null = this.present,
    start?: (room: TestRoom) => Promise<Kernel>,
    blobs: Blobs = this.blobs,
  ): TestRoom {
    this.#crashed = true
    this.#held = []
    this.executions.dispose()
    const { id, store, clock, mirror, limits } = this
    const next = new TestRoom({ id, store, blobs, clock, mirror, limits, kernel })
    for (const [cellId, cell] of this.cells) next.cells.set(cellId, cell)
    if (start) next.start = () => start(next)
    next.executions.resume(kernel)
    return next
  }

  async close(): Promise<void> {
    this.#crashed = true
    this.executions.dispose()
    await this.store.close()
    if (this.#folder) rmSync(this.#folder, { recursive: true, force: true })
  }

  #make(): RoomExecutions {
    const { blobs, clock, limits } = this
    return createExecutions({ port: this, blobs, clock, log, limits })
  }
}

export function roomRow(id: NotebookId): WriteUnit[number] {
  return {
    sql: `INSERT INTO rooms (notebook_id, kind, title, working_dir, created_at, touched_at) VALUES (?, 'standalone', '', '', 0, 0)`,
    values: [id],
  }
}

export function kernelRow(kernel: Kernel, notebookId: NotebookId): WriteUnit[number] {
  return {
    sql: `INSERT INTO kernels (kernel_id, notebook_id, name, language, nonce, socket, machine_boot, launch, started_at)
      VALUES (?, ?, ?, ?, '', '', '', ?, 0)`,
    values: [kernel.id, notebookId, kernel.name, kernel.language, new Uint8Array()],
  }
}
