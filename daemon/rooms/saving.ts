/**
 * Saving a room into its file. A save is a point in time: the result names the `doc_seq` and `event_seq` it contains.
 *
 * Crash points: before the rename the file is as it was; between the rename and the last commit the row's `pending` hash tells the
 * next daemon that the bytes on disk are ours (disk-changes.ts). The caller holds the room's source line: nothing else looks at the
 * file or writes it meanwhile.
 */

import { basename, dirname } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { MethodResult } from '../../protocol/methods.ts'
import type { ExecutionSummary } from '../../protocol/notebook.ts'
import { Breathing } from '../breathing.ts'
import { withoutHash } from '../documents/changes.ts'
import type { WriteCell, Written } from '../documents/ipynb/write.ts'
import { saveFile } from '../documents/save.ts'
import { outputsForFile } from '../executions/file-outputs.ts'
import { faultPoint } from '../fault-points.ts'
import { type BaseText, baseRows, isBase, readBaseInTurns } from './base-text.ts'
import { newFile } from './file-path.ts'
import type { Room } from './room.ts'
import { recordByPath, type SourceRecord, updateBinding } from './room-record.ts'
import type { RoomsContext } from './rooms-context.ts'
import { inWords } from './source-after.ts'
import { mustBeWritable } from './source-states.ts'

export interface SaveOptions {
  /** Save as: the room is bound to this path from then on. */
  readonly path?: string | undefined
  /** By itself: cells that run keep in the file what they showed before, so that a long run does not write the file again and again. */
  readonly auto?: boolean
}

/** A room's content at one moment. */
interface Moment {
  readonly doc_seq: number
  readonly event_seq: number
  readonly metadata: Record<string, unknown>
  readonly cells: readonly WriteCell[]
  readonly marks: ReadonlyMap<CellId, string>
}

export class Saver {
  readonly #rooms: RoomsContext
  readonly #room: Room
  /** What each cell showed when it was last saved: cells whose mark is the same keep their bytes. */
  #savedMarks = new Map<CellId, string>()
  /** Cells of which the base has other outputs than the room, although they came with a file. */
  readonly #differing = new Set<CellId>()

  constructor(rooms: RoomsContext, room: Room) {
    this.#rooms = rooms
    this.#room = room
  }

  /** The base has other outputs of some cells than the room. */
  get differs(): boolean {
    return this.#differing.size > 0
  }

  /** The base has other outputs of these cells than the room shows: the next save writes the room's. */
  outputsDiffer(cellIds: Iterable<CellId>): void {
    for (const id of cellIds) {
      this.#differing.add(id)
      this.#savedMarks.delete(id)
    }
  }

  /**
   * Rejects `source_conflict` when the file is not what was last seen, `source_degraded` when it may not be written,
   * `invalid_argument` without a path, `conflict` when another room has it, or with what kept the file from being written.
   */
  async save({ path, auto = false }: SaveOptions): Promise<MethodResult<'save'>> {
    const room = this.#room
    const target = path === undefined ? room.record.path : await newFile(path)
    if (target === null) {
      throw new RoomdError('invalid_argument', 'this notebook has no file yet: give a path to save it to', {
        next: { tool: 'save_notebook', arguments: { path: 'NAME.ipynb' } },
      })
    }
    const same = target === room.record.path
    if (same) mustBeWritable(room.record.source)
    else this.#mustBeFree(target)

    let base = await this.#spliceable(same)
    // What the room took from its file meanwhile has another base.
    while (base && !isBase(this.#rooms.store, room.id, base.hash)) base = await this.#spliceable(same)
    const moment = await this.#moment(base !== null, auto)
    const written = await this.#rooms.worker.write({
      base: base?.text ?? null,
      base_ids: base?.cell_ids ?? null,
      path: target,
      metadata: moment.metadata,
      cells: moment.cells,
    })
    const result = {
      notebook_id: room.id,
      path: target,
      doc_seq: moment.doc_seq,
      event_seq: moment.event_seq,
    }
    const { source } = room.record
    if (same && source.hash === written.hash && source.state !== 'missing') {
      await this.#alreadyThere(moment)
      return { ...result, outcome: 'already_current' }
    }
    if (room.record.state === 'archived') {
      // A copy: it is no room that goes on with a file.
      await this.#write(target, same, written)
      return { ...result, outcome: 'saved' }
    }
    await this.#announce(written, moment)
    await this.#write(target, same, written)
    faultPoint('save:replaced')
    const warnings = await this.#warningsOf(target, same, written)
    await this.#bind(target, warnings, same, written, moment)
    return { ...result, outcome: 'saved' }
  }

  /** The file's text to splice into. Of an old format nothing is kept: what is written is a new file. */
  async #spliceable(same: boolean): Promise<BaseText | null> {
    const { source } = this.#room.record
    if (source.read_only === 'format' && !same) return null
    return readBaseInTurns(this.#rooms.store, this.#room.id)
  }

  async #moment(hasBase: boolean, auto: boolean): Promise<Moment> {
    const { document, executions } = this.#room
    const taken = {
      doc_seq: this.#room.docSeq,
      event_seq: this.#room.events.last,
      metadata: document.metadata,
    }
    const views = document.cells(0, document.cellCount)
    const marks = new Map<CellId, string>()
    const running = new Set<CellId>()
    for (const { cell_id } of views) {
      marks.set(cell_id, executions.outputMark(cell_id))
      const shown = auto ? executions.ofCell(cell_id) : undefined
      if (shown && keepsOld(shown)) running.add(cell_id)
    }
    await this.#room.settled()
    const cells: WriteCell[] = []
    const breathing = new Breathing()
    for (const view of views) {
      const cell = withoutHash(view)
      const { cell_id } = cell
      if (running.has(cell_id)) {
        marks.delete(cell_id)
        cells.push({ ...cell, outputs: 'unchanged' })
      } else cells.push({ ...cell, outputs: await this.#outputsOf(cell_id, marks, hasBase) })
      if (breathing.due) await breathing.pause()
    }
    return { ...taken, cells, marks }
  }

  async #outputsOf(
    cellId: CellId,
    marks: ReadonlyMap<CellId, string>,
    hasBase: boolean,
  ): Promise<WriteCell['outputs']> {
    const mark = marks.get(cellId) ?? 'none'
    const unchanged = mark.startsWith('file:') || this.#savedMarks.get(cellId) === mark
    if (hasBase && unchanged && !this.#differing.has(cellId)) return 'unchanged'
    const shown = await outputsForFile(this.#rooms.store, this.#rooms.blobs, this.#room.id, cellId)
    return { outputs: shown?.outputs ?? [], execution_count: shown?.execution_count ?? null }
  }

  async #alreadyThere(moment: Moment): Promise<void> {
    const { record } = this.#room
    this.#remember(moment)
    const { reason, ...source } = record.source
    const wasTold = source.state === 'ready' && reason !== undefined
    if (record.saved_doc_seq === moment.doc_seq && record.saved_event_seq === moment.event_seq && !wasTold)
      return
    record.saved_doc_seq = moment.doc_seq
    record.saved_event_seq = moment.event_seq
    record.source = source
    await this.#room.commit({ statements: [updateBinding(record)] })
  }

  /** Says what is about to be on disk, so that a crash in between is known by it. */
  async #announce(written: Written, { doc_seq, event_seq }: Moment): Promise<void> {
    const { record } = this.#room
    const { hash, cell_ids } = written
    const pending = { hash, doc_seq, event_seq, ...(cell_ids ? { cell_ids: [...cell_ids] } : {}) }
    record.source = { ...record.source, pending }
    await this.#room.commit({ statements: [updateBinding(record)] })
    faultPoint('save:announced')
  }

  async #write(target: string, same: boolean, { bytes, hash }: Written): Promise<void> {
    const { source } = this.#room.record
    const expectedHash = same && source.state !== 'missing' ? (source.hash ?? null) : null
    try {
      await saveFile({ path: target, bytes, expectedHash }, (step) => faultPoint(`save:${step}`))
    } catch (error) {
      // Asked for again after a crash: what stands there is what was to be written.
      if (!same && error instanceof RoomdError && presentHash(error) === hash) return
      throw error
    }
  }

  /** What is odd about the file now: no more that cells lack ids, once they were written. */
  async #warningsOf(
    target: string,
    same: boolean,
    { ids_added, bytes }: Written,
  ): Promise<string[] | undefined> {
    const { warnings } = this.#room.record.source
    if (!same || warnings === undefined || ids_added.length === 0) return same ? warnings : undefined
    return inWords((await this.#rooms.worker.read(bytes, target)).warnings)
  }

  async #bind(
    target: string,
    warnings: readonly string[] | undefined,
    same: boolean,
    written: Written,
    moment: Moment,
  ): Promise<void> {
    const { record } = this.#room
    const { hash, bytes, cell_ids } = written
    const { doc_seq, event_seq } = moment
    const { state } = record.source
    record.path = target
    record.saved_doc_seq = doc_seq
    record.saved_event_seq = event_seq
    const source: SourceRecord = {
      state: 'ready',
      hash,
      ...(warnings?.length ? { warnings: [...warnings] } : {}),
    }
    record.source = source
    if (!same) {
      record.title = basename(target)
      // A project's room stays in its workspace, wherever its notebook is kept.
      if (record.kind !== 'project') {
        record.kind = 'in-place'
        record.working_dir = dirname(target)
      }
    }
    await this.#room.commit({
      statements: [updateBinding(record), ...baseRows(this.#room.id, { hash, text: bytes, cell_ids })],
      events: [
        { type: 'saved', path: target, doc_seq, event_seq },
        ...(same && state === 'ready'
          ? []
          : [{ type: 'source' as const, path: target, state: 'ready' as const }]),
      ],
    })
    this.#remember(moment)
  }

  #remember(moment: Moment): void {
    this.#savedMarks = new Map(moment.marks)
    this.#differing.clear()
  }

  #mustBeFree(target: string): void {
    const other = recordByPath(this.#rooms.store, target)
    if (!other) return
    throw new RoomdError(
      'conflict',
      `${target} is open as another room (${other.notebook_id}); choose another path`,
      {
        cause: { notebook_id: other.notebook_id },
        next: { tool: 'connect_notebook', arguments: { notebook_id: other.notebook_id } },
      },
    )
  }
}

/** It has not ended, or never began: what the file shows of the cell is worth more. */
function keepsOld({ origin, started_at, finished_at }: ExecutionSummary): boolean {
  return origin === 'peer' && (finished_at === null || started_at === null)
}

function presentHash({ detail }: RoomdError): unknown {
  return typeof detail === 'object' && detail !== null && 'present' in detail ? detail.present : undefined
}
