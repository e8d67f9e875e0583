/**
 * A room as this client knows it, kept equal to the daemon's by pages, deltas and events. Pure: frames' contents in, state and a
 * verdict out; it sends nothing and waits for nothing.
 *
 * Invariants: a durable event is applied exactly once, by its `event_seq` (a repetition is dropped, a hole is `missed`); a
 * document change exactly once, by its `doc_seq`. Cells are joined with their newest execution when they are read.
 * Races: while pages arrive, what follows them is not yet there (one channel, one order); a picture that begins anew, because
 * the daemon shows it again, replaces one that was not finished.
 */
import type { Opened, Projection } from '../../protocol/channels.ts'
import type { DurableEvent, RoomEvent } from '../../protocol/events.ts'
import type { CellId, ExecutionId } from '../../protocol/ids.ts'
import { type Cell, type Execution, type ExecutionSummary, isTerminal } from '../../protocol/notebook.ts'
import { ExecutionRecord } from './execution-record.ts'
import { type CellDocument, MirrorCells } from './mirror-cells.ts'

/** `applied`: tell it. `repeated`: known already. `missed`: something before it is lost; a fresh picture is needed. */
export type Verdict = 'applied' | 'repeated' | 'missed'

/** Executions kept that no cell shows and nobody follows. */
const KEPT_EXECUTIONS = 200

interface Shown {
  readonly document: CellDocument
  readonly record: ExecutionRecord | undefined
  readonly version: number
  readonly cell: Cell
}

export class Mirror {
  eventSeq = 0
  docSeq = 0
  metadata: Readonly<Record<string, unknown>> = {}
  readonly #cells = new MirrorCells()
  readonly #executions = new Map<ExecutionId, ExecutionRecord>()
  /** Newest execution of each cell; kept for deleted cells too, since a moved cell is deleted and inserted. */
  readonly #ofCell = new Map<CellId, ExecutionId>()
  /** Not terminal, in the order they were queued. */
  readonly #openIds = new Set<ExecutionId>()
  #queuedBeyond = 0
  #shown = new Map<CellId, Shown>()
  #snapshot: readonly Cell[] | null = null
  /** Pages are awaited. `overrule`: their outputs replace ours (a fresh picture), else ours are kept. */
  #pages: { overrule: boolean; cells: Cell[] } | null = null
  #eventsUntil: number | null = null
  /** OPENED told what is open; the gap that may follow it takes nothing of that back. */
  #opening = false
  #replay: ExecutionRecord | null = null
  /** Has neither cells nor `cells` events: the peer wants no projection. */
  readonly #blind: boolean

  constructor(options: { blind?: boolean } = {}) {
    this.#blind = options.blind ?? false
  }

  /** The picture that OPENED announced is not complete yet. */
  get loading(): boolean {
    return this.#pages !== null || this.#eventsUntil !== null
  }

  // --- the picture ---------------------------------------------------------------------------------------------------

  /** OPENED of a first or a resumed attach. */
  begin(opened: Opened): void {
    this.metadata = opened.metadata
    this.#replay = null
    this.#pages = opened.pages ? { overrule: opened.picture === 'projection', cells: [] } : null
    this.#eventsUntil = null
    this.#opening = true
    switch (opened.picture) {
      case 'projection':
        this.#open(opened)
        return
      case 'none':
        this.eventSeq = opened.event_seq
        this.docSeq = opened.doc_seq
        this.#open(opened)
        return
      case 'events':
      case 'current':
        if (!opened.pages) this.docSeq = opened.doc_seq
        if (this.eventSeq < opened.event_seq) this.#eventsUntil = opened.event_seq
        return
    }
  }

  page(page: Extract<Projection, { kind: 'cells' }>): void {
    // The daemon may show everything again unasked: it fell behind with this peer, or its store failed.
    const pages = this.#pages ?? { overrule: true, cells: [] }
    this.#pages = pages
    if (page.start === 0) pages.cells = []
    for (const cell of page.cells) pages.cells.push(cell)
    if (!page.last) return
    this.#pages = null
    this.#opening = false
    this.#install(pages.cells, pages.overrule)
    this.docSeq = page.doc_seq
    if (pages.overrule) this.eventSeq = page.event_seq
  }

  /** Output so far of an execution that is not terminal. */
  replay(replay: Extract<Projection, { kind: 'replay' }>): Verdict {
    const record = this.#executions.get(replay.execution_id)
    if (!record) return 'repeated'
    // Collected aside, so that whoever follows the run is told only what is new to it.
    const scratch = this.#replay?.id === record.id ? this.#replay : new ExecutionRecord(record.summary)
    this.#replay = scratch
    try {
      for (const event of replay.events) if (!applyOutput(scratch, event)) this.#applyDurable(event)
    } catch (error) {
      if (error instanceof RangeError) return 'missed'
      throw error
    }
    if (!replay.last) return 'applied'
    this.#replay = null
    record.load(scratch.outputs, scratch.exact)
    this.#snapshot = null
    return 'applied'
  }

  // --- events --------------------------------------------------------------------------------------------------------

  event(eventSeq: number | undefined, event: RoomEvent): Verdict {
    if (eventSeq === undefined) return this.#transient(event)
    if (eventSeq <= this.eventSeq) return 'repeated'
    if (eventSeq !== this.eventSeq + 1) return 'missed'
    try {
      this.#applyDurable(event as DurableEvent)
    } catch (error) {
      if (error instanceof RangeError) return 'missed'
      throw error
    }
    this.#count(eventSeq)
    return 'applied'
  }

  /** A durable event of a kind that this version does not know: it counts, and changes nothing. */
  skip(eventSeq: number): Verdict {
    if (eventSeq <= this.eventSeq) return 'repeated'
    if (eventSeq !== this.eventSeq + 1) return 'missed'
    this.#count(eventSeq)
    return 'applied'
  }

  #count(eventSeq: number): void {
    this.eventSeq = eventSeq
    if (this.#eventsUntil !== null && eventSeq >= this.#eventsUntil) this.#eventsUntil = null
  }

  #transient(event: RoomEvent): Verdict {
    switch (event.type) {
      case 'cells': {
        if (this.#blind) return 'applied'
        if (event.doc_seq <= this.docSeq) return 'repeated'
        if (event.doc_seq !== this.docSeq + 1) return 'missed'
        try {
          this.#cells.apply(event.delta, event.changes)
        } catch (error) {
          if (error instanceof RangeError) return 'missed'
          throw error
        }
        this.docSeq = event.doc_seq
        if (event.metadata) this.metadata = event.metadata
        this.#snapshot = null
        return 'applied'
      }
      case 'gap':
        this.eventSeq = Math.max(this.eventSeq, event.to)
        this.#eventsUntil = null
        // What was open may have ended meanwhile; the pages and the daemon's answers tell.
        if (!this.#opening) this.#openIds.clear()
        if (!this.#blind) this.#pages = { overrule: true, cells: [] }
        return 'applied'
      default:
        return 'applied'
    }
  }

  #applyDurable(event: DurableEvent): void {
    switch (event.type) {
      case 'execution_started':
        if (!this.#openIds.has(event.execution.execution_id))
          this.#queuedBeyond = Math.max(0, this.#queuedBeyond - 1)
        this.#summary(event.execution)
        break
      case 'execution_queued':
      case 'execution_finished':
        this.#summary(event.execution)
        break
      case 'input_requested': {
        const record = this.#executions.get(event.execution_id)
        const { prompt, password } = event
        record?.update({ ...record.summary, status: 'waiting_for_input', prompt, password })
        break
      }
      case 'input_answered': {
        const record = this.#executions.get(event.execution_id)
        if (!record) break
        const { prompt: _prompt, password: _password, ...rest } = record.summary
        record.update({ ...rest, status: 'running' })
        break
      }
      case 'output':
      case 'output_splice':
      case 'outputs_cleared': {
        // Outputs of an execution that nobody shows any more (its cell ran again elsewhere) have no place.
        const record = this.#executions.get(event.execution_id)
        if (record) applyOutput(record, event)
        break
      }
      case 'cells_cleared':
        for (const cellId of event.cell_ids) this.#ofCell.delete(cellId)
        break
      case 'kernel':
      case 'source':
      case 'saved':
      case 'kernel_gap':
        break
    }
    this.#snapshot = null
  }

  // --- executions ----------------------------------------------------------------------------------------------------

  record(executionId: ExecutionId): ExecutionRecord | undefined {
    return this.#executions.get(executionId)
  }

  get executions(): ReadonlyMap<ExecutionId, ExecutionRecord> {
    return this.#executions
  }

  /** Takes over what the daemon answered about one execution: a run that is new to the mirror, or whose end was missed. */
  learn(execution: Execution): ExecutionRecord {
    const { outputs, ...summary } = execution
    const known = this.#executions.get(summary.execution_id)
    if (known?.terminal && known.exact) return known
    if (known && !isTerminal(summary.status)) {
      // Of one that goes on, the channel's own events tell more than an answer that came another way.
      if (!known.terminal) this.#openIds.add(known.id)
      return known
    }
    const record = known ?? this.#add(summary)
    record.load(outputs)
    return this.#summary(summary)
  }

  /** Running first, then queued in their order; only those that are known by name. */
  get open(): readonly ExecutionSummary[] {
    const summaries: ExecutionSummary[] = []
    for (const id of this.#openIds) {
      const summary = this.#executions.get(id)?.summary
      if (summary?.status === 'queued') summaries.push(summary)
      else if (summary) summaries.unshift(summary)
    }
    return summaries
  }

  /** Queued executions beyond those that OPENED listed. */
  get queuedBeyond(): number {
    return this.#queuedBeyond
  }

  /**
   * Executions that a fresh picture says nothing about although they were open, and those whose text is not exact: the daemon
   * has to be asked what became of them.
   */
  unsettled(): ExecutionId[] {
    const ids: ExecutionId[] = []
    for (const record of this.#executions.values()) {
      if (record.terminal ? !record.exact : !this.#openIds.has(record.id) && !record.error)
        ids.push(record.id)
    }
    return ids
  }

  #summary(summary: ExecutionSummary): ExecutionRecord {
    const known = this.#executions.get(summary.execution_id)
    const record = known ?? this.#add(summary)
    if (known) known.update(summary)
    if (record.terminal) this.#openIds.delete(record.id)
    else this.#openIds.add(record.id)
    this.#snapshot = null
    return record
  }

  #add(summary: ExecutionSummary): ExecutionRecord {
    const record = new ExecutionRecord(summary)
    this.#executions.set(summary.execution_id, record)
    // Asked about later than a newer run of the same cell: that one is what the cell shows.
    if (summary.cell_id !== null) {
      const shown = this.#executions.get(this.#ofCell.get(summary.cell_id) ?? summary.execution_id)
      if (!shown || shown.summary.queued_at <= summary.queued_at)
        this.#ofCell.set(summary.cell_id, summary.execution_id)
    }
    if (this.#executions.size > 2 * KEPT_EXECUTIONS) this.#prune()
    return record
  }

  #prune(): void {
    const shown = new Set(this.#ofCell.values())
    const spare = [...this.#executions.values()].filter(
      (record) => record.terminal && !record.followed && !shown.has(record.id),
    )
    for (const record of spare.slice(0, Math.max(0, spare.length - KEPT_EXECUTIONS)))
      this.#executions.delete(record.id)
  }

  #open({ running, queued, queued_total }: Pick<Opened, 'running' | 'queued' | 'queued_total'>): void {
    this.#openIds.clear()
    this.#queuedBeyond = Math.max(0, queued_total - queued.length)
    if (running) this.#summary(running)
    for (const summary of queued) this.#summary(summary)
  }

  // --- cells ---------------------------------------------------------------------------------------------------------

  /** All cells, joined with their newest executions. The array and what is in it never change afterwards. */
  get cells(): readonly Cell[] {
    if (!this.#snapshot) {
      const shown = new Map<CellId, Shown>()
      this.#snapshot = this.#cells.all.map((document) => {
        const entry = this.#show(document)
        shown.set(document.cell_id, entry)
        return entry.cell
      })
      this.#shown = shown
    }
    return this.#snapshot
  }

  cell(cellId: CellId): Cell | undefined {
    const document = this.#cells.get(cellId)
    return document && this.#show(document).cell
  }

  #show(document: CellDocument): Shown {
    const record = this.#executions.get(this.#ofCell.get(document.cell_id) as ExecutionId)
    const version = record?.version ?? 0
    const before = this.#shown.get(document.cell_id)
    if (before?.document === document && before.record === record && before.version === version) return before
    const cell: Cell = {
      ...document,
      ...(record ? { execution: record.summary } : {}),
      outputs: record ? [...record.outputs] : [],
    }
    return { document, record, version, cell }
  }

  #install(cells: readonly Cell[], overrule: boolean): void {
    this.#cells.load(cells.map(({ execution: _execution, outputs: _outputs, ...document }) => document))
    this.#shown.clear()
    this.#snapshot = null
    this.#ofCell.clear()
    for (const { cell_id, execution, outputs } of cells) {
      if (!execution) continue
      const known = this.#executions.get(execution.execution_id)
      const record = known ?? this.#add(execution)
      // A page says nothing about the outputs of one that goes on: a replay follows, or ours are right.
      if (isTerminal(execution.status) && (overrule || !known)) record.load(outputs)
      // Behind the outputs, so that whoever follows the run has them when it hears of the end.
      this.#summary(execution)
      this.#ofCell.set(cell_id, execution.execution_id)
    }
  }
}

/** Whether it was an event about outputs. */
function applyOutput(record: ExecutionRecord, event: DurableEvent): boolean {
  switch (event.type) {
    case 'output':
      record.put(event.index, event.output)
      return true
    case 'output_splice':
      record.splice(event.index, event.from, event.text)
      return true
    case 'outputs_cleared':
      record.clear()
      return true
    default:
      return false
  }
}
