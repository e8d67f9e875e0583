/**
 * The executions a mirror knows: their records, which of them are open and in what order, and which one each cell shows. Kept by
 * durable events; what a picture or an answer says is taken over without telling anybody twice.
 */
import type { Opened } from '../../protocol/channels.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import type { CellId, ExecutionId } from '../../protocol/ids.ts'
import { type Cell, type Execution, type ExecutionSummary, isTerminal } from '../../protocol/notebook.ts'
import { ExecutionRecord } from './execution-record.ts'

/** Executions kept that no cell shows and nobody follows. */
const KEPT_EXECUTIONS = 200

export class MirrorExecutions {
  readonly #records = new Map<ExecutionId, ExecutionRecord>()
  /** Newest execution of each cell; kept for deleted cells too, since a moved cell is deleted and inserted. */
  readonly #ofCell = new Map<CellId, ExecutionId>()
  /** Not terminal, in the order they were queued. */
  readonly #openIds = new Set<ExecutionId>()
  #queuedBeyond = 0
  /** Records from which on it is looked for those that are kept for nothing; looking takes as long as there are records. */
  #pruneAt = 2 * KEPT_EXECUTIONS

  get all(): ReadonlyMap<ExecutionId, ExecutionRecord> {
    return this.#records
  }

  get(executionId: ExecutionId): ExecutionRecord | undefined {
    return this.#records.get(executionId)
  }

  /** What a cell shows. */
  ofCell(cellId: CellId): ExecutionRecord | undefined {
    const executionId = this.#ofCell.get(cellId)
    return executionId && this.#records.get(executionId)
  }

  /** Running first, then queued in their order; only those that are known by name. */
  get open(): readonly ExecutionSummary[] {
    const summaries: ExecutionSummary[] = []
    for (const id of this.#openIds) {
      const summary = this.#records.get(id)?.summary
      if (summary?.status === 'queued') summaries.push(summary)
      else if (summary) summaries.unshift(summary)
    }
    return summaries
  }

  /** Queued executions beyond those that OPENED listed. */
  get queuedBeyond(): number {
    return this.#queuedBeyond
  }

  /** Those of which nothing is known to be open although they had not ended, and those whose text is not exact. */
  unsettled(): ExecutionId[] {
    const ids: ExecutionId[] = []
    for (const record of this.#records.values()) {
      if (record.terminal ? !record.exact : !this.#openIds.has(record.id) && !record.error)
        ids.push(record.id)
    }
    return ids
  }

  /** OPENED says what is open. */
  opened({ running, queued, queued_total }: Pick<Opened, 'running' | 'queued' | 'queued_total'>): void {
    this.#openIds.clear()
    this.#queuedBeyond = Math.max(0, queued_total - queued.length)
    if (running) this.#update(running)
    for (const summary of queued) this.#update(summary)
  }

  /** What was open may have ended unseen. */
  doubtOpen(): void {
    this.#openIds.clear()
  }

  /** Throws RangeError when something before the event was missed. */
  apply(event: DurableEvent): void {
    switch (event.type) {
      case 'execution_started':
        if (!this.#openIds.has(event.execution.execution_id))
          this.#queuedBeyond = Math.max(0, this.#queuedBeyond - 1)
        this.#update(event.execution)
        this.#prune()
        return
      case 'execution_queued':
      case 'execution_finished':
        this.#update(event.execution)
        this.#prune()
        return
      case 'input_requested': {
        const record = this.#records.get(event.execution_id)
        const { prompt, password } = event
        record?.update({ ...record.summary, status: 'waiting_for_input', prompt, password })
        return
      }
      case 'input_answered': {
        const record = this.#records.get(event.execution_id)
        if (!record) return
        const { prompt: _prompt, password: _password, ...rest } = record.summary
        record.update({ ...rest, status: 'running' })
        return
      }
      case 'output':
      case 'output_splice':
      case 'outputs_cleared': {
        // Outputs of an execution that nobody shows any more (its cell ran again elsewhere) have no place.
        const record = this.#records.get(event.execution_id)
        if (record) applyOutput(record, event)
        return
      }
      case 'cells_cleared':
        for (const cellId of event.cell_ids) this.#ofCell.delete(cellId)
        return
      case 'kernel_gap': {
        const record = event.execution_id === null ? undefined : this.#records.get(event.execution_id)
        if (record && event.gap)
          record.update({ ...record.summary, gaps: [...(record.summary.gaps ?? []), event.gap] })
        return
      }
      case 'kernel':
      case 'source':
      case 'saved':
      case 'notice':
      case 'comm_opened':
      case 'comm_updated':
      case 'comm_message':
      case 'comm_closed':
      case 'comms_gone':
        return
    }
  }

  /** Fresh pages say what each cell shows. `overrule`: their outputs replace ours, else ours are kept. */
  install(cells: readonly Cell[], overrule: boolean): void {
    this.#ofCell.clear()
    for (const { cell_id, execution, outputs } of cells) {
      if (!execution) continue
      const known = this.#records.get(execution.execution_id)
      const record = known ?? this.#add(execution)
      // A page says nothing about the outputs of one that goes on: a replay follows, or ours are right.
      if (isTerminal(execution.status) && (overrule || !known)) record.load(outputs)
      // Behind the outputs, so that whoever follows the run has them when it hears of the end.
      this.#update(execution)
      this.#ofCell.set(cell_id, execution.execution_id)
    }
    // Only now it is known what is shown.
    this.#prune()
  }

  /** Takes over what the daemon answered about one execution: a run that is new to the mirror, or whose end was missed. */
  learn(execution: Execution): ExecutionRecord {
    const { outputs, ...summary } = execution
    const known = this.#records.get(summary.execution_id)
    if (known?.terminal && known.exact) return known
    if (known && !isTerminal(summary.status)) {
      // Of one that goes on, the channel's own events tell more than an answer that came another way.
      if (!known.terminal) this.#openIds.add(known.id)
      return known
    }
    const record = known ?? this.#add(summary)
    record.load(outputs)
    this.#update(summary)
    this.#prune()
    return record
  }

  #update(summary: ExecutionSummary): ExecutionRecord {
    const known = this.#records.get(summary.execution_id)
    const record = known ?? this.#add(summary)
    if (known) known.update(summary)
    if (record.terminal) this.#openIds.delete(record.id)
    else this.#openIds.add(record.id)
    return record
  }

  #add(summary: ExecutionSummary): ExecutionRecord {
    const record = new ExecutionRecord(summary)
    this.#records.set(summary.execution_id, record)
    // Asked about later than a newer run of the same cell: that one is what the cell shows.
    if (summary.cell_id !== null) {
      const shown = this.ofCell(summary.cell_id)
      if (!shown || shown.summary.queued_at <= summary.queued_at)
        this.#ofCell.set(summary.cell_id, summary.execution_id)
    }
    return record
  }

  #prune(): void {
    if (this.#records.size <= this.#pruneAt) return
    const shown = new Set(this.#ofCell.values())
    const spare = [...this.#records.values()].filter(
      (record) => record.terminal && !record.followed && !shown.has(record.id),
    )
    for (const record of spare.slice(0, Math.max(0, spare.length - KEPT_EXECUTIONS)))
      this.#records.delete(record.id)
    const kept = this.#records.size
    this.#pruneAt = Math.max(2 * KEPT_EXECUTIONS, kept + kept / 2)
  }
}

/** Whether it was an event about outputs. Throws RangeError when something before it was missed. */
export function applyOutput(record: ExecutionRecord, event: DurableEvent): boolean {
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
