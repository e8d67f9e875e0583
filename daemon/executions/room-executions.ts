/**
 * The executions of one room: what was asked for, in which order it runs, and how each ends.
 *
 * Invariants: every execution gets exactly one terminal state; one runs at a time; it is sent to a kernel only after a commit that
 * says to which, so that a row without that mark has never run; the next one is sent only after the end of the one before is
 * durable. Memory is the state of all changes handed over to the room, committed or not.
 *
 * Rules decided here: a cell of blanks is done at once without a kernel (as in JupyterLab), and its old outputs are gone. When a
 * kernel dies, what ran is `lost`; when it is restarted or shut down, what ran is `interrupted`; what waited is `cancelled`; when it
 * cannot start, everything is an `error`. Output that comes after the end of its run is added to it without another end.
 */
import { randomUUID } from 'node:crypto'
import { RoomdError } from '../../protocol/errors.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import { type CellId, ExecutionId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { Execution, ExecutionSummary, Output, TerminalStatus } from '../../protocol/notebook.ts'
import { sourceHash } from '../documents/source-hash.ts'
import { deathInWords } from '../kernels/death.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { ExecuteRequest, RoomExecutions, RunAllRequest } from '../rooms/parts.ts'
import type { Statement } from '../store/store.ts'
import { RecordBook } from './book.ts'
import { Change } from './change.ts'
import { RoomComms } from './comms/room-comms.ts'
import { Consumer, type Draft } from './consumer.ts'
import { type Ending, notWaiting, outcomeOf, statusAfter } from './endings.ts'
import { type PreparedFileOutputs, takeRows } from './file-outputs.ts'
import type { Live } from './live.ts'
import type { Reply } from './messages.ts'
import { defaultLimits, type ExecutionLimits, type ExecutionsOptions } from './options.ts'
import { readExecution } from './reading.ts'
import { type ExecutionRow, insertExecution, showInCell } from './rows.ts'
import { Runner } from './runner.ts'
import type { ShownExecutions } from './shown-executions.ts'

/** Makes the executions of a room from what the store has. Then `resume` is due. */
export function createExecutions(options: ExecutionsOptions): RoomExecutions {
  return new Executions(options)
}

class Executions implements RoomExecutions {
  readonly #options: ExecutionsOptions
  readonly #limits: ExecutionLimits
  readonly #book: RecordBook
  /** Made when the first asks for it: most rooms have no widgets. */
  #comms: RoomComms | null = null
  readonly #consumer: Consumer
  readonly #runner: Runner
  /** Whose events are taken. */
  #kernel: Kernel | null = null
  readonly #gone = new WeakSet<Kernel>()
  /** Nothing left over from before waits for `resume`. */
  #resumed: boolean
  #disposed = false
  readonly #revisions = new Map<ExecutionId, number>()

  constructor(options: ExecutionsOptions) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
    const { port, blobs, clock, log } = options
    this.#book = new RecordBook(port.store, port.id, this.#limits.outputBytes)
    this.#resumed = this.#book.open.length === 0
    this.#consumer = new Consumer({
      store: port.store,
      comms: () => this.comms,
      book: this.#book,
      blobs,
      clock,
      log,
      limits: this.#limits,
      commit: (draft, more) => this.#commit(draft, more),
      started: (live) => {
        // An interrupt that came before the kernel had begun met nothing.
        if (live.detail.interrupted) this.#runner.interrupt(this.#kernel)
      },
      settled: (live, reply, at, draft) => this.#settled(live, reply, at, draft),
      died: (event, draft) => {
        const ran = this.#book.open.find((live) => live.sent)
        this.#endAll(this.#book.open.slice(), 'died', deathInWords(event, ran?.row.cell_id), draft)
      },
    })
    this.#runner = new Runner({
      port,
      clock,
      log,
      hangMs: this.#limits.hangMs,
      ahead: () => this.#comms?.delivered ?? null,
      consumedAll: (kernel) => this.#consumer.consumedAll(kernel),
      mark: (live, kernel) =>
        this.#alone((draft) => {
          live.row.kernel_id = kernel.id
          draft.touched.add(live)
        }),
      sending: (kernel) => {
        this.#kernel = kernel
      },
      startFailed: (reason) => this.kernelGone(reason, 'start_failed'),
      lost: (live, reason) => this.#alone((draft) => this.#finish(live, 'lost', reason, port.now(), draft)),
    })
  }

  get comms(): RoomComms {
    const { port, blobs, clock, log } = this.#options
    this.#comms ??= new RoomComms({
      store: port.store,
      blobs,
      clock,
      log,
      notebookId: port.id,
      presentKernel: () => port.presentKernel,
    })
    return this.#comms
  }

  // --- asking --------------------------------------------------------------------------------------------------------

  execute(request: ExecuteRequest): ReturnType<RoomExecutions['execute']> {
    const { cell_id, code } = request
    if ((cell_id === undefined) === (code === undefined))
      throw new RoomdError('invalid_argument', 'execute needs exactly one of cell_id and code')
    const active = cell_id === undefined ? undefined : this.#book.openOfCell(cell_id)
    if (active) return { execution: active.summary, already_active: true, statements: [], events: [] }
    const source = cell_id === undefined ? { source: code ?? '' } : this.#codeCell(cell_id)
    const made = this.#make(request, cell_id ?? null, source, null)
    return { execution: made.live.summary, already_active: false, ...made }
  }

  runAll(request: RunAllRequest): ReturnType<RoomExecutions['runAll']> {
    const batch = randomUUID()
    const executions: ExecutionSummary[] = []
    const statements: Statement[] = []
    const events: DurableEvent[] = []
    for (const cellId of this.#options.port.codeCells()) {
      const active = this.#book.openOfCell(cellId)
      if (active) {
        executions.push(active.summary)
        continue
      }
      const made = this.#make(request, cellId, this.#codeCell(cellId), batch)
      executions.push(made.live.summary)
      statements.push(...made.statements)
      events.push(...made.events)
    }
    return { executions, statements, events }
  }

  admitted(executionIds: readonly ExecutionId[]): void {
    for (const id of executionIds) {
      const live = this.#book.inMemory(id)
      if (!live) continue
      if (live.terminal) {
        this.#book.unpin([live])
        live.tellEnded()
      } else if (this.#resumed) this.#runner.enqueue(live)
    }
  }

  async cancel(executionId: ExecutionId): Promise<ExecutionSummary> {
    const live = this.#book.inMemory(executionId)
    if (!live || live.terminal) {
      const summary = this.#book.summary(executionId)
      if (summary) return summary
      throw new RoomdError(
        'not_found',
        `no execution ${executionId} in this notebook; list_executions lists them`,
        { next: { tool: 'list_executions', arguments: {} } },
      )
    }
    if (live.sent) {
      this.#askToStop(live)
      await Promise.race([live.ended, this.#after(this.#limits.interruptMs)])
    } else {
      await this.#alone((draft) =>
        this.#finish(live, 'cancelled', 'it was cancelled before it ran', this.#options.port.now(), draft),
      )
    }
    return live.summary
  }

  async sendInput(executionId: ExecutionId, value: string, by: string): Promise<void> {
    const live = this.#book.inMemory(executionId)
    const { input } = live?.detail ?? {}
    const waiting = live?.row.status === 'waiting_for_input'
    if (!live || !waiting || !input || live.answering) throw notWaiting(executionId, live?.answering ?? false)
    const kernel = this.#kernel ?? this.#options.port.presentKernel
    if (!kernel) throw new RoomdError('kernel_died', 'the kernel that asked is gone; run the cell again')
    live.answering = true
    let alreadySent: boolean
    try {
      // The host logs it under this id, so that an answer repeated after a crash is not a second one.
      const sent = await kernel.send({
        requestId: `input-${input.msg_id}`,
        channel: 'stdin',
        msgType: 'input_reply',
        content: { value, status: 'ok' },
        parentId: input.msg_id,
      })
      alreadySent = sent.alreadySent
    } catch (thrown) {
      live.answering = false
      throw thrown
    }
    // Meanwhile the run may have ended, or asked again.
    if (live.row.status === 'waiting_for_input' && live.detail.input?.msg_id === input.msg_id) {
      await this.#alone((draft) => {
        live.row.status = 'running'
        delete live.detail.input
        live.answering = false
        draft.touched.add(live)
        draft.change.push({ type: 'input_answered', execution_id: live.id, by: alreadySent ? 'someone' : by })
      })
    }
    if (alreadySent) throw notWaiting(executionId, true)
  }

  async interrupt(): ReturnType<RoomExecutions['interrupt']> {
    const { port } = this.#options
    const running = this.#book.open.find((live) => live.sent && !live.leaving)
    const waiting = this.#book.open.filter((live) => live !== running && !live.leaving)
    if (running) this.#askToStop(running)
    const reason = 'the queue was cancelled by an interrupt'
    const committed = this.#alone((draft) => {
      for (const live of waiting) this.#finish(live, 'cancelled', reason, port.now(), draft)
      if (running) draft.touched.add(running)
    })
    const cancelled = waiting.map((live) => live.id)
    await committed
    if (!running) return { interrupted: null, cancelled }
    await Promise.race([running.ended, this.#after(this.#limits.interruptMs)])
    if (!running.terminal) return { interrupted: null, cancelled, offer: 'restart' }
    return { interrupted: running.row.status === 'interrupted' ? running.id : null, cancelled }
  }

  clearOutputs(cellIds: readonly CellId[] | undefined): ReturnType<RoomExecutions['clearOutputs']> {
    const { shown } = this.#book
    const cleared: CellId[] = []
    for (const cellId of cellIds ?? [...shown.keys()]) {
      const id = shown.get(cellId)
      if (id === undefined || this.#book.inMemory(id)?.terminal === false) continue
      shown.delete(cellId)
      cleared.push(cellId)
    }
    if (cleared.length === 0) return { cellIds: [], statements: [], events: [] }
    const remove: Statement = {
      sql: 'DELETE FROM cell_executions WHERE notebook_id = ? AND cell_id IN (SELECT value FROM json_each(?))',
      values: [this.#options.port.id, JSON.stringify(cleared)],
    }
    return { cellIds: cleared, statements: [remove], events: [{ type: 'cells_cleared', cell_ids: cleared }] }
  }

  takeFileOutputs(cells: readonly PreparedFileOutputs[]): ReturnType<RoomExecutions['takeFileOutputs']> {
    const { port } = this.#options
    const free = cells.filter((cell) => !this.#book.openOfCell(cell.cell_id))
    const taken = takeRows(port.id, free, port.now(), () => this.#book.nextQueueSeq())
    this.#book.addFiles(taken.entries)
    return { statements: taken.statements, events: taken.events }
  }

  // --- the kernel ----------------------------------------------------------------------------------------------------

  resume(kernel: Kernel | null, reason = 'its kernel is gone'): void {
    this.#kernel = kernel
    this.#resumed = true
    const handed = this.#book.open.filter((live) => live.row.kernel_id !== null)
    const lost = handed.filter((live) => live.row.kernel_id !== kernel?.id)
    if (lost.length > 0) {
      this.#alone((draft) => {
        const now = this.#options.port.now()
        for (const live of lost) this.#finish(live, 'lost', reason, now, draft)
        // As at any death of a kernel: what waited counted on variables that are gone.
        for (const live of this.#book.open.filter((waiting) => waiting.row.kernel_id === null))
          this.#finish(live, 'cancelled', `it was not run: ${reason}`, now, draft)
      })
    }
    this.#alone((draft) => this.comms.resume(kernel, draft.change))
    for (const live of this.#book.open) {
      if (live.row.kernel_id !== null) live.sent = true
      this.#runner.enqueue(live)
    }
    if (kernel) this.#consumer.wake()
  }

  kernelEvent(kernel: Kernel, event: HostEvent): void {
    if (this.#disposed || this.#gone.has(kernel)) return
    this.#kernel = kernel
    this.#consumer.push(kernel, event)
  }

  kernelGone(reason: string, ending: Ending): void {
    const kernel = this.#kernel ?? this.#options.port.presentKernel
    if (kernel && ending !== 'start_failed') this.#gone.add(kernel)
    this.#kernel = null
    this.#resumed = true
    const open = this.#book.open.filter((live) => !live.leaving)
    const end = () => {
      this.#consumer.forgetKernel()
      const left = open.filter((live) => !live.terminal)
      this.#alone((draft) => {
        this.#endAll(left, ending, reason, draft)
        if (ending !== 'start_failed') this.comms.gone(reason, draft.change)
      })
    }
    // What it printed comes first; only a text longer than a slice, or a value that is still being written, makes it wait.
    if (this.#consumer.hurry()) {
      end()
      return
    }
    for (const live of open) live.leaving = true
    this.#consumer.drained().then(() => {
      if (!this.#disposed) end()
    })
  }

  // --- views ---------------------------------------------------------------------------------------------------------

  ofCell(cellId: CellId): ExecutionSummary | undefined {
    const id = this.#book.shown.get(cellId)
    return id === undefined ? undefined : this.#book.summary(id)
  }

  preload(all: ShownExecutions): void {
    this.#book.preload(all)
  }

  outputs(executionId: ExecutionId): Output[] {
    return this.#book.outputs(executionId)
  }

  replay(executionId: ExecutionId): DurableEvent[] {
    const live = this.#book.inMemory(executionId)
    return live ? live.recorder.replay() : []
  }

  get(executionId: ExecutionId): Execution | undefined {
    const summary = this.#book.summary(executionId)
    if (!summary) return readExecution(this.#options.port.store, executionId)
    return { ...summary, outputs: this.#book.outputs(executionId) }
  }

  list(limit: number): ExecutionSummary[] {
    return this.#book.list(limit)
  }

  outputMark(cellId: CellId): string {
    const id = this.#book.shown.get(cellId)
    const summary = id === undefined ? undefined : this.#book.summary(id)
    if (!summary) return 'none'
    if (summary.origin === 'file') return `file:${summary.execution_id}`
    return `${summary.execution_id}:${summary.status}:${this.#revisions.get(summary.execution_id) ?? 0}`
  }

  get running(): ExecutionSummary | null {
    return this.#book.open.find((live) => live.row.status !== 'queued')?.summary ?? null
  }

  get queued(): readonly ExecutionSummary[] {
    return this.#book.open.filter((live) => live.row.status === 'queued').map((live) => live.summary)
  }

  get idle(): boolean {
    return this.#book.open.length === 0
  }

  trim(): void {
    this.#book.trim()
    this.#runner.trim()
    if (this.#options.port.presentKernel || !this.#comms?.empty) return
    this.#comms.dispose()
    this.#comms = null
  }

  dispose(): void {
    this.#disposed = true
    this.#runner.dispose()
    this.#consumer.dispose()
    this.#comms?.dispose()
  }

  // --- making --------------------------------------------------------------------------------------------

  #codeCell(cellId: CellId): { source: string; source_hash: string } {
    const cell = this.#options.port.cell(cellId)
    if (!cell) {
      throw new RoomdError('not_found', `no cell ${cellId} in this notebook; get_all_cells lists the ids`, {
        next: { tool: 'get_all_cells', arguments: {} },
      })
    }
    if (cell.cell_type === 'code') return cell
    throw new RoomdError(
      'invalid_argument',
      `cell ${cellId} is a ${cell.cell_type} cell; only code cells run`,
    )
  }

  #make(
    request: ExecuteRequest | RunAllRequest,
    cellId: CellId | null,
    { source, source_hash }: { source: string; source_hash?: string },
    batch: string | null,
  ): { live: Live; statements: Statement[]; events: DurableEvent[] } {
    const { port } = this.#options
    const now = port.now()
    const first = this.#book.open.length === 0 && this.#resumed
    const row: ExecutionRow = {
      execution_id: ExecutionId.parse(randomUUID()),
      notebook_id: port.id,
      queue_seq: this.#book.nextQueueSeq(),
      cell_id: cellId,
      batch,
      status: 'queued',
      execution_count: null,
      origin: 'peer',
      asked_by: request.by,
      source_hash: source_hash ?? sourceHash(source),
      on_error: request.on_error,
      allow_stdin: request.allow_stdin ? 1 : 0,
      kernel_id: null,
      queued_at: now,
      started_at: null,
      finished_at: null,
      detail: null,
    }
    const live = this.#book.add(row)
    const events: DurableEvent[] = [{ type: 'execution_queued', execution: live.summary }]
    if (source.trim() === '') {
      row.status = 'done'
      row.started_at = now
      row.finished_at = now
      this.#book.ended(live)
      this.#book.pin([live])
      events.push({ type: 'execution_finished', execution: live.summary })
    } else if (first) {
      // It is next and its kernel is there: the mark needs no commit of its own.
      row.kernel_id = port.presentKernel?.id ?? null
    }
    live.rows() // told by the insert
    return { live, statements: [insertExecution(row, {}, source), ...showInCell(row)], events }
  }

  #askToStop(live: Live): void {
    live.detail.interrupted = true
    this.#runner.interrupt(this.#kernel ?? this.#options.port.presentKernel)
  }

  // --- ending --------------------------------------------------------------------------------------------------------

  #settled(live: Live, reply: Reply | null, at: number, draft: Draft): void {
    if (reply?.status === 'ok') {
      for (const data of reply.pages)
        live.recorder.output(draft.change, { output_type: 'display_data', data, metadata: {} })
    }
    const { status, reason } = outcomeOf(reply, live.detail.interrupted ?? false)
    this.#finish(live, status, reason, at, draft)
    const { batch, on_error } = live.row
    if (live.row.status !== 'done' && batch !== null && on_error === 'stop') {
      const behind = this.#book.open.filter((other) => other.row.batch === batch && !other.sent)
      for (const other of behind)
        this.#finish(other, 'cancelled', 'a cell before it in the same run failed', at, draft)
    }
    // The next one is marked in this same change, so that it can be sent as soon as this is durable.
    const next = this.#book.open.find((other) => !other.sent && !other.leaving)
    const kernel = this.#options.port.presentKernel
    if (next && next.row.kernel_id === null && kernel && kernel === this.#kernel) {
      next.row.kernel_id = kernel.id
      draft.touched.add(next)
    }
  }

  #endAll(lives: readonly Live[], ending: Ending, reason: string, draft: Draft): void {
    const now = this.#options.port.now()
    for (const live of lives) {
      if (live.terminal) continue
      const ran = live.sent
      const why = ran || ending === 'start_failed' ? reason : `it was not run: ${reason}`
      this.#finish(live, statusAfter(ending, ran), why, now, draft)
    }
  }

  #finish(live: Live, status: TerminalStatus, reason: string | undefined, at: number, draft: Draft): void {
    if (live.terminal) return
    draft.touched.add(live)
    live.recorder.seal(draft.change)
    live.row.status = status
    live.row.finished_at = at
    delete live.detail.input
    live.question = null
    delete live.detail.partial
    if (reason !== undefined && status !== 'done') live.detail.reason = reason
    this.#book.ended(live)
    draft.change.push({ type: 'execution_finished', execution: live.summary })
  }

  // --- committing ----------------------------------------------------------------------------------------------------

  /** A change of its own. Resolves after its commit; a failure is the room's to handle and is only logged here. */
  #alone(make: (draft: Draft) => void): Promise<void> {
    const draft: Draft = { change: new Change(), touched: new Set() }
    make(draft)
    if (draft.touched.size === 0 && draft.change.events.length === 0) return Promise.resolve()
    const committed = this.#commit(draft, [])
    committed.catch((error: unknown) => {
      this.#options.log.warn({ error: String(error) }, 'a change of executions was not stored')
    })
    return committed
  }

  async #commit({ change, touched }: Draft, more: readonly Statement[]): Promise<void> {
    const comms = this.#comms
    const { statements: ofComms, send } = comms?.rows() ?? { statements: [], send: [] }
    const statements = [...[...touched].flatMap((live) => live.rows()), ...ofComms]
    const { events } = change
    const outputs = events.filter(isOutputEvent)
    for (const live of touched)
      if (outputs.some((event) => event.execution_id === live.id)) this.#revise(live.id)
    this.#book.pin(touched)
    const ended = [...touched].filter((live) => live.terminal)
    await this.#options.port.commit({ statements: [...statements, ...more], events })
    this.#book.unpin(touched)
    comms?.committed(send)
    for (const live of ended) live.tellEnded()
  }

  #revise(id: ExecutionId): void {
    this.#revisions.set(id, (this.#revisions.get(id) ?? 0) + 1)
  }

  #after(ms: number): Promise<void> {
    return new Promise((resolve) => this.#options.clock.after(ms, resolve))
  }
}

type OutputEvent = Extract<DurableEvent, { type: 'output' | 'output_splice' | 'outputs_cleared' }>

function isOutputEvent(event: DurableEvent): event is OutputEvent {
  return event.type === 'output' || event.type === 'output_splice' || event.type === 'outputs_cleared'
}
