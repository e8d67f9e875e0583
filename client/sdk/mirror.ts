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
import type { Cell, Execution, ExecutionSummary } from '../../protocol/notebook.ts'
import { ExecutionRecord } from './execution-record.ts'
import { type CellDocument, MirrorCells } from './mirror-cells.ts'
import { applyOutput, MirrorExecutions } from './mirror-executions.ts'

/** `applied`: tell it. `repeated`: known already. `missed`: something before it is lost; a fresh picture is needed. */
export type Verdict = 'applied' | 'repeated' | 'missed'

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
  readonly #executions = new MirrorExecutions()
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
    // What does not fit into OPENED follows; until then what was known counts.
    this.metadata = opened.metadata_follows ? { ...this.metadata, ...opened.metadata } : opened.metadata
    this.#replay = null
    this.#pages = opened.pages ? { overrule: opened.picture === 'projection', cells: [] } : null
    this.#eventsUntil = null
    this.#opening = true
    switch (opened.picture) {
      case 'projection':
        this.#executions.opened(opened)
        return
      case 'none':
        this.eventSeq = opened.event_seq
        this.docSeq = opened.doc_seq
        this.#executions.opened(opened)
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
        if (event.doc_seq !== this.docSeq + (event.parts?.length ?? 1)) return 'missed'
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
        if (!this.#opening) this.#executions.doubtOpen()
        if (!this.#blind) this.#pages = { overrule: true, cells: [] }
        return 'applied'
      default:
        return 'applied'
    }
  }

  #applyDurable(event: DurableEvent): void {
    this.#executions.apply(event)
    this.#snapshot = null
  }

  // --- executions ----------------------------------------------------------------------------------------------------

  record(executionId: ExecutionId): ExecutionRecord | undefined {
    return this.#executions.get(executionId)
  }

  get executions(): ReadonlyMap<ExecutionId, ExecutionRecord> {
    return this.#executions.all
  }

  /** Running first, then queued in their order; only those that are known by name. */
  get open(): readonly ExecutionSummary[] {
    return this.#executions.open
  }

  /** Queued executions beyond those that OPENED listed. */
  get queuedBeyond(): number {
    return this.#executions.queuedBeyond
  }

  /** Executions of which the daemon has to be asked what became of them, or what their text is. */
  unsettled(): ExecutionId[] {
    return this.#executions.unsettled()
  }

  /** Takes over what the daemon answered about one execution. */
  learn(execution: Execution): ExecutionRecord {
    this.#snapshot = null
    return this.#executions.learn(execution)
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
    const record = this.#executions.ofCell(document.cell_id)
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
    this.#executions.install(cells, overrule)
  }
}
