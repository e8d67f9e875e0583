/**
 * What a room has to do when its file was changed by another program: a three-way merge per cell, and per line inside a cell.
 * `base` is the file as it was last read or written, so that what only one side changed is taken from that side.
 *
 * Invariant: no source is ever dropped that one side wrote and the other does not have. Where both sides changed the same lines,
 * or one deleted what the other changed, there is a conflict: the room keeps its cell as it is, the file's version is in the
 * file, and the base is remembered with the conflict.
 */
import { isDeepStrictEqual } from 'node:util'
import { CellId } from '../../../protocol/ids.ts'
import type { Output } from '../../../protocol/notebook.ts'
import { derivedId } from '../ipynb/cell-ids.ts'
import type { CellSeed } from '../layout.ts'
import { alignCells } from './align.ts'
import { mergeOrder } from './merge-order.ts'
import { mergeText } from './merge-text.ts'
import { mergeValues, type Values } from './merge-values.ts'

/** A cell as a file has it. */
export interface MergeFileCell extends CellSeed {
  /** The id that the file gives; null: it gives none, or one that cannot be used. */
  readonly own_id: string | null
  readonly outputs: readonly Output[]
  readonly execution_count: number | null
}

/** A cell on which file and room differ. */
export interface SourceConflict {
  readonly cell_id: CellId
  /** The text that both started from; null: both made a cell of this id. */
  readonly base: string | null
  /** What the file has; null: it has the cell no more. */
  readonly disk: string | null
}

export interface MergeInput {
  readonly base: { readonly metadata: Values; readonly cells: readonly MergeFileCell[] }
  readonly room: { readonly metadata: Values; readonly cells: readonly CellSeed[] }
  readonly disk: { readonly metadata: Values; readonly cells: readonly MergeFileCell[] }
  /** Conflicts that are open: their base is older than `base`. */
  readonly open: readonly SourceConflict[]
}

export interface ChangedCell {
  readonly cell_id: CellId
  source?: string
  cell_type?: string
  metadata?: Record<string, unknown>
  /** null: it has none any more. */
  attachments?: Record<string, unknown> | null
}

/** Outputs that the file changed. */
export interface ChangedOutputs {
  readonly cell_id: CellId
  readonly source: string
  readonly outputs: readonly Output[]
  readonly execution_count: number | null
  /** As the file had them before; null: the cell is new. */
  readonly before: { readonly outputs: readonly Output[]; readonly execution_count: number | null } | null
}

export interface MergePlan {
  /** Cells of the room after the merge, in order. */
  readonly order: readonly CellId[]
  readonly created: readonly CellSeed[]
  readonly changed: readonly ChangedCell[]
  readonly deleted: readonly CellId[]
  /** The notebook's metadata after the merge; null: the room's stays. */
  readonly metadata: Record<string, unknown> | null
  readonly conflicts: readonly SourceConflict[]
  /** For each cell of the file the room's id of it. */
  readonly disk_ids: readonly CellId[]
  readonly outputs: readonly ChangedOutputs[]
  /** Places of metadata that both sides changed: the room's stayed. */
  readonly dropped: readonly string[]
  /** The room was as the base: after the merge it is as the file. */
  readonly room_clean: boolean
}

export function mergeNotebooks(input: MergeInput): MergePlan {
  return new Merging(input).plan()
}

class Merging {
  readonly #input: MergeInput
  readonly #room: ReadonlyMap<CellId, CellSeed>
  readonly #open: ReadonlyMap<CellId, SourceConflict>
  readonly #created: CellSeed[] = []
  readonly #changed: ChangedCell[] = []
  readonly #deleted: CellId[] = []
  readonly #conflicts: SourceConflict[] = []
  readonly #dropped: string[] = []
  readonly #outputs: ChangedOutputs[] = []

  constructor(input: MergeInput) {
    this.#input = input
    this.#room = new Map(input.room.cells.map((cell) => [cell.cell_id, cell]))
    this.#open = new Map(input.open.map((conflict) => [conflict.cell_id, conflict]))
  }

  plan(): MergePlan {
    const { base, room, disk } = this.#input
    const matched = alignCells(base.cells, disk.cells)
    const diskOf = new Map(matched.flatMap((old, now) => (old === -1 ? [] : [[old, now] as const])))
    const diskIds: (CellId | null)[] = matched.map((old) => base.cells[old]?.cell_id ?? null)

    base.cells.forEach((before, index) => {
      const now = disk.cells[diskOf.get(index) ?? -1]
      this.#known(before, this.#room.get(before.cell_id), now)
      if (now) this.#outputsOf(now, before.cell_id, before)
    })
    this.#newOnDisk(diskIds)
    this.#stillGone(new Set(diskIds))

    const gone = new Set([
      ...this.#deleted,
      // Deleted in the room, and staying so.
      ...base.cells.map((cell) => cell.cell_id).filter((id) => !this.#room.has(id)),
    ])
    const ids = diskIds.filter((id) => id !== null)
    const metadata = mergeValues(base.metadata, room.metadata, disk.metadata, (at) =>
      this.#dropped.push(`metadata.${at}`),
    )
    return {
      order: mergeOrder(
        base.cells.map((cell) => cell.cell_id),
        room.cells.map((cell) => cell.cell_id),
        ids,
        gone,
      ),
      created: this.#created,
      changed: this.#changed,
      deleted: this.#deleted,
      metadata: isDeepStrictEqual(metadata, room.metadata) ? null : metadata,
      conflicts: this.#conflicts,
      disk_ids: ids,
      outputs: this.#outputs,
      dropped: this.#dropped,
      room_clean: this.#roomIsClean(),
    }
  }

  /** A cell that the base has. */
  #known(before: CellSeed, room: CellSeed | undefined, disk: CellSeed | undefined): void {
    const open = this.#open.get(before.cell_id)
    const text = open ? open.base : before.source
    const changed = (cell: CellSeed): boolean =>
      cell.source !== text ||
      cell.cell_type !== before.cell_type ||
      !isDeepStrictEqual(cell.attachments ?? {}, before.attachments ?? {})
    if (room && disk) this.#both(room, before, text, disk)
    else if (room && changed(room)) this.#conflict(before.cell_id, text, null)
    else if (room) this.#deleted.push(before.cell_id)
    else if (disk && changed(disk)) this.#conflict(before.cell_id, text, disk.source)
  }

  /** A cell that both sides have. `text`: null when neither had it before. */
  #both(room: CellSeed, before: CellSeed | null, text: string | null, disk: CellSeed): void {
    const change: ChangedCell = { cell_id: room.cell_id }
    const source =
      text === null && room.source !== disk.source
        ? { conflict: true as const }
        : mergeText(text ?? '', room.source, disk.source)
    if ('conflict' in source) this.#conflict(room.cell_id, text, disk.source)
    else if (source.merged !== room.source) change.source = source.merged
    const differs = (at: string): void => {
      this.#dropped.push(`${room.cell_id}.${at}`)
    }
    if (disk.cell_type !== room.cell_type) {
      if (before === null || before.cell_type === room.cell_type) change.cell_type = disk.cell_type
      else if (before.cell_type !== disk.cell_type) differs('cell_type')
    }
    const metadata = mergeValues(before?.metadata ?? {}, room.metadata, disk.metadata, (at) =>
      differs(`metadata.${at}`),
    )
    if (!isDeepStrictEqual(metadata, room.metadata)) change.metadata = metadata
    const attachments = mergeValues(
      before?.attachments ?? {},
      room.attachments ?? {},
      disk.attachments ?? {},
      (at) => differs(`attachments.${at}`),
    )
    if (!isDeepStrictEqual(attachments, room.attachments ?? {}))
      change.attachments = Object.keys(attachments).length > 0 ? attachments : null
    if (Object.keys(change).length > 1) this.#changed.push(change)
  }

  /** Cells of the file that the base does not have. Fills in their ids. */
  #newOnDisk(diskIds: (CellId | null)[]): void {
    const { base, disk, room } = this.#input
    const known = new Set(base.cells.map((cell) => cell.cell_id))
    const roomNew = room.cells.filter((cell) => !known.has(cell.cell_id))
    const used = new Set<CellId>([...known, ...this.#room.keys(), ...diskIds.filter((id) => id !== null)])
    const paired = new Set<CellId>()
    const take = (index: number, cell: MergeFileCell, twin: CellSeed): void => {
      paired.add(twin.cell_id)
      diskIds[index] = twin.cell_id
      const open = this.#open.get(twin.cell_id)
      this.#both(twin, null, open ? open.base : null, cell)
      this.#outputsOf(cell, twin.cell_id, null)
    }
    disk.cells.forEach((cell, index) => {
      if (diskIds[index] !== null) return
      const own = roomNew.find((other) => other.cell_id === cell.own_id && !paired.has(other.cell_id))
      if (own) {
        take(index, cell, own)
        return
      }
      // Both sides made the same cell: one is enough.
      const twin = roomNew.find(
        (other) =>
          !paired.has(other.cell_id) &&
          cell.source.trim() !== '' &&
          other.source === cell.source &&
          other.cell_type === cell.cell_type,
      )
      if (twin) {
        take(index, cell, twin)
        return
      }
      const wanted = CellId.safeParse(cell.own_id)
      const id =
        wanted.success && !used.has(wanted.data)
          ? wanted.data
          : derivedId(`${cell.cell_type}\n${cell.source}`, used)
      used.add(id)
      diskIds[index] = id
      const { cell_type, source, metadata, attachments } = cell
      this.#created.push({
        cell_id: id,
        cell_type,
        source,
        metadata,
        ...(attachments ? { attachments } : {}),
      })
      this.#outputsOf(cell, id, null)
    })
  }

  /** Open conflicts over cells that the file has not had for longer than since the base. */
  #stillGone(onDisk: ReadonlySet<CellId | null>): void {
    const known = new Set(this.#input.base.cells.map((cell) => cell.cell_id))
    for (const { cell_id, base, disk } of this.#open.values()) {
      if (disk !== null || known.has(cell_id) || onDisk.has(cell_id) || !this.#room.has(cell_id)) continue
      this.#conflict(cell_id, base, null)
    }
  }

  #outputsOf(
    cell: MergeFileCell,
    cellId: CellId,
    before: { outputs: readonly Output[]; execution_count: number | null } | null,
  ): void {
    const { outputs, execution_count, source } = cell
    const same = before
      ? execution_count === before.execution_count && isDeepStrictEqual(outputs, before.outputs)
      : outputs.length === 0 && execution_count === null
    if (same) return
    this.#outputs.push({
      cell_id: cellId,
      source,
      outputs,
      execution_count,
      before: before && { outputs: before.outputs, execution_count: before.execution_count },
    })
  }

  #conflict(cell_id: CellId, base: string | null, disk: string | null): void {
    this.#conflicts.push({ cell_id, base, disk })
  }

  #roomIsClean(): boolean {
    const { base, room, open } = this.#input
    return (
      open.length === 0 &&
      base.cells.length === room.cells.length &&
      isDeepStrictEqual(base.metadata, room.metadata) &&
      base.cells.every((cell, index) => {
        const other = room.cells[index]
        return (
          other !== undefined &&
          other.cell_id === cell.cell_id &&
          other.source === cell.source &&
          other.cell_type === cell.cell_type &&
          isDeepStrictEqual(other.metadata, cell.metadata) &&
          isDeepStrictEqual(other.attachments ?? {}, cell.attachments ?? {})
        )
      })
    )
  }
}
