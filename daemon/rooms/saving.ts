/**
 * Saving a room into its file. A save is a point in time: the result names the `doc_seq` and `event_seq` it contains. One at a time
 * per room.
 *
 * Crash points: before the rename the file is as it was; between the rename and the last commit the row's `pending` hash tells the
 * next daemon that the bytes on disk are ours (opening.ts).
 */
import { basename, dirname } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import type { MethodResult } from '../../protocol/methods.ts'
import type { WriteCell } from '../documents/ipynb/write.ts'
import { saveFile } from '../documents/save.ts'
import { outputsForFile } from '../executions/file-outputs.ts'
import type { Statement, Store } from '../store/store.ts'
import { newFile } from './file-path.ts'
import type { Room } from './room.ts'
import { recordByPath, updateBinding } from './room-record.ts'
import type { RoomsContext } from './rooms-context.ts'

export function sourceRows(notebookId: NotebookId, hash: string, bytes: Uint8Array): Statement[] {
  return [
    {
      sql: `INSERT INTO sources (notebook_id, hash, text) VALUES (?, ?, ?)
            ON CONFLICT (notebook_id) DO UPDATE SET hash = excluded.hash, text = excluded.text`,
      values: [notebookId, hash, bytes],
    },
  ]
}

export class Saver {
  readonly #rooms: RoomsContext
  readonly #room: Room
  /** What each cell showed when it was last saved: cells whose mark is the same keep their bytes. */
  #savedMarks = new Map<CellId, string>()
  /** The base text is not the one that this room's outputs came with: none of them may be taken from it. */
  #foreignBase = false
  #line: Promise<unknown> = Promise.resolve()

  constructor(rooms: RoomsContext, room: Room) {
    this.#rooms = rooms
    this.#room = room
  }

  /** Saves behind what is being saved now. `path`: save as; the room is bound to it from then on. */
  save(path: string | undefined): Promise<MethodResult<'save'>> {
    const next = this.#line.then(() => this.#save(path))
    this.#line = next.catch(() => undefined) // told to who asked for it
    return next
  }

  /** The base was replaced by other bytes from disk. */
  rebased(): void {
    this.#foreignBase = true
    this.#savedMarks.clear()
  }

  async #save(path: string | undefined): Promise<MethodResult<'save'>> {
    const room = this.#room
    const target = path === undefined ? room.record.path : await newFile(path)
    if (target === null) {
      throw new RoomdError('invalid_argument', 'this notebook has no file yet: give a path to save it to', {
        next: { tool: 'save_notebook', arguments: { path: 'NAME.ipynb' } },
      })
    }
    const same = target === room.record.path
    if (same) this.#mustBeWritable()
    else this.#mustBeFree(target)

    const doc_seq = room.docSeq
    const event_seq = room.events.last
    const marks = new Map(room.document.cellIds().map((id) => [id, room.executions.outputMark(id)] as const))
    const views = room.document.cells(0, room.document.cellCount)
    const { metadata } = room.document
    await room.settled()
    const base = same ? readBase(this.#rooms.store, room.id) : null
    const cells: WriteCell[] = []
    for (const { source_hash: _, ...view } of views) {
      cells.push({ ...view, outputs: await this.#outputsOf(view.cell_id, marks, base !== null) })
    }
    const { bytes, hash } = await this.#rooms.worker.write({
      base: base?.text ?? null,
      path: target,
      metadata,
      cells,
    })
    const saved = { notebook_id: room.id, path: target, doc_seq, event_seq }
    if (base && hash === base.hash && room.record.source.state !== 'missing') {
      this.#savedMarks = marks
      if (room.record.saved_doc_seq !== doc_seq || room.record.saved_event_seq !== event_seq) {
        room.record.saved_doc_seq = doc_seq
        room.record.saved_event_seq = event_seq
        await room.commit({ statements: [updateBinding(room.record)] })
      }
      return { ...saved, outcome: 'already_current' }
    }

    const pending = { hash, doc_seq, event_seq }
    room.record.source = { ...room.record.source, pending }
    await room.commit({ statements: [updateBinding(room.record)] })
    const missing = room.record.source.state === 'missing'
    try {
      await saveFile({ path: target, bytes, expectedHash: base && !missing ? base.hash : null })
    } catch (error) {
      if (same && error instanceof RoomdError && error.code === 'source_conflict') await this.#differs(error)
      throw error
    }
    const { record } = room
    record.path = target
    record.saved_doc_seq = doc_seq
    record.saved_event_seq = event_seq
    const { warnings } = record.source
    record.source = { state: 'ready', hash, ...(warnings && same ? { warnings } : {}) }
    if (!same) {
      record.kind = 'in-place'
      record.title = basename(target)
      record.working_dir = dirname(target)
    }
    await room.commit({
      statements: [updateBinding(record), ...sourceRows(room.id, hash, bytes)],
      events: [
        { type: 'saved', path: target, doc_seq, event_seq },
        ...(same ? [] : [{ type: 'source' as const, path: target, state: 'ready' as const }]),
      ],
    })
    this.#savedMarks = marks
    this.#foreignBase = false
    return { ...saved, outcome: 'saved' }
  }

  /**
   * The file is not what was last read or written: said to all, and saving is closed until it is reconciled. A file that is gone
   * holds nothing to reconcile with: the next save writes it anew.
   */
  async #differs(error: RoomdError): Promise<void> {
    const { record } = this.#room
    const gone = (error.detail as { present?: unknown } | undefined)?.present === null
    const state = gone ? 'missing' : 'modified_outside'
    record.source = { ...record.source, state, reason: error.message }
    await this.#room.commit({
      statements: [updateBinding(record)],
      events: [{ type: 'source', path: record.path, state, reason: error.message }],
    })
  }

  async #outputsOf(
    cellId: CellId,
    marks: ReadonlyMap<CellId, string>,
    hasBase: boolean,
  ): Promise<WriteCell['outputs']> {
    const mark = marks.get(cellId) ?? 'none'
    const unchanged = mark.startsWith('file:') || this.#savedMarks.get(cellId) === mark
    if (hasBase && unchanged && !this.#foreignBase) return 'unchanged'
    const shown = await outputsForFile(this.#rooms.store, this.#rooms.blobs, this.#room.id, cellId)
    return { outputs: shown?.outputs ?? [], execution_count: shown?.execution_count ?? null }
  }

  #mustBeWritable(): void {
    const { state, reason } = this.#room.record.source
    switch (state) {
      case 'ready':
      case 'missing':
      case 'none':
        return
      case 'modified_outside':
      case 'conflict':
        throw new RoomdError(
          'source_conflict',
          `not saved: ${reason ?? 'the file was changed by another program'}`,
          {
            next: { tool: 'reconcile_source', arguments: { keep: 'both' } },
          },
        )
      case 'read_only':
      case 'degraded':
      case 'loading':
        throw new RoomdError(
          'source_degraded',
          `not saved: the file is ${state} (${reason ?? ''}); save under another path`,
        )
    }
  }

  #mustBeFree(target: string): void {
    const other = recordByPath(this.#rooms.store, target)
    if (!other) return
    throw new RoomdError(
      'conflict',
      `${target} is open as another room (${other.notebook_id}); choose another path`,
      {
        cause: { notebook_id: other.notebook_id },
      },
    )
  }
}

function readBase(store: Store, notebookId: NotebookId): { hash: string; text: Uint8Array } | null {
  return (
    store.get<{ hash: string; text: Uint8Array }>(
      'SELECT hash, text FROM sources WHERE notebook_id = ?',
      notebookId,
    ) ?? null
  )
}
