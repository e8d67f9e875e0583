/**
 * What an attaching (or stale) peer is shown: OPENED or a gap, then missed events or projection pages and replays. The picture is
 * taken in one synchronous step; its values are made when the channel can take them, from what was taken.
 */
import type { z } from 'zod'
import type { Open, Opened, Projection } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'
import { COMM_INLINE } from '../../protocol/comms.ts'
import { FrameType, PROJECTION_PAGE } from '../../protocol/frames.ts'
import { type Cell, type ExecutionSummary, isTerminal } from '../../protocol/notebook.ts'
import { Breathing } from '../breathing.ts'
import { type CommSnapshot, viewOf } from '../executions/comms/comm.ts'
import type { DocumentCellView, RoomDocument, RoomExecutions } from './parts.ts'
import type { PictureValue } from './peer.ts'
import type { Room } from './room.ts'

/** A page ends at 200 cells or about this many bytes of source and text, whichever comes first. */
const PAGE_BYTES = 128 * 1024
/** People and queue entries listed in OPENED; totals tell the rest. */
export const LISTED = 100

export interface Picture {
  readonly kind: Opened['picture']
  readonly pages: boolean
  readonly values: Iterable<PictureValue>
}

/** What was taken of a room at one moment. */
interface Taken {
  readonly document: RoomDocument
  readonly cells: readonly { view: DocumentCellView; execution: ExecutionSummary | undefined }[]
  readonly doc_seq: number
  readonly event_seq: number
}

/** Joins a cell with the execution it shows. Outputs of one that is not terminal are left to replays. */
export function joinCell(
  executions: RoomExecutions,
  view: DocumentCellView,
  execution: ExecutionSummary | undefined,
): Cell {
  return {
    ...view,
    ...(execution ? { execution } : {}),
    outputs: execution && isTerminal(execution.status) ? executions.outputs(execution.execution_id) : [],
  }
}

/** Takes the picture of now, pending changes included: it is shown behind their commits. `anew`: the peer has an older one. */
export function takePicture(
  room: Room,
  projection: boolean,
  resume: z.output<typeof Open>['resume'],
  anew = resume !== undefined,
): Picture {
  const blind = (): Picture => ({ kind: 'none', pages: false, values: chain(commPages(room, anew)) })
  if (!projection && !resume) return blind()
  const missed = resume ? room.events.readable(resume.event_seq) : null
  if (resume && missed) {
    const pages = projection && resume.doc_seq !== room.docSeq
    const taken = pages ? take(room) : null
    const kind = room.events.last === resume.event_seq ? 'current' : 'events'
    return { kind, pages, values: chain(missedEvents(missed), taken ? cellPages(room, taken) : []) }
  }
  if (!projection) return blind()
  const taken = take(room)
  const values = chain(commPages(room, anew), cellPages(room, taken), replays(room))
  return { kind: 'projection', pages: true, values }
}

/** What OPENED says of the room, as of attaching. */
export function openedOf(
  room: Room,
): Omit<Opened, 'peer_id' | 'scope' | 'picture' | 'pages' | 'peers' | 'peers_total'> {
  const { executions } = room
  return {
    notebook_id: room.id,
    path: room.record.path,
    title: room.record.title,
    connection_generation: room.connectionGeneration,
    doc_seq: room.docSeq,
    event_seq: room.events.last,
    cell_count: room.document.cellCount,
    metadata: room.document.metadata,
    readiness: room.readiness(),
    kernel: room.kernelSummary(),
    running: executions.running,
    queued: executions.queued.slice(0, LISTED),
    queued_total: executions.queued.length,
  }
}

export function peersOf(room: Room): Pick<Opened, 'peers' | 'peers_total'> {
  return {
    peers: [...room.peers].slice(0, LISTED).map((peer) => peer.summary()),
    peers_total: room.peers.size,
  }
}

/** Cells from which on what was taken is kept for who attaches next: to take it anew is tens of milliseconds in one step. */
const MANY_CELLS = 200
/** Cells that are taken at once, where others get their turn in between. */
const SOME_CELLS = 100

const kept = new WeakMap<Room, Taken>()

function take(room: Room): Taken {
  const known = kept.get(room)
  if (known && isOfNow(known, room)) return known
  return keep(room, { ...momentOf(room), cells: takeCells(room, 0, room.document.cellCount) })
}

/** Takes a large room that nobody has changed yet, with turns of the loop in between; who attaches next finds it taken. */
export async function takeBeforehand(room: Room): Promise<void> {
  const moment = momentOf(room)
  const breathing = new Breathing()
  const cells: Taken['cells'][number][] = []
  for (let at = 0; at < room.document.cellCount; at += SOME_CELLS) {
    cells.push(...takeCells(room, at, SOME_CELLS))
    if (breathing.due) await breathing.pause()
  }
  const taken = { ...moment, cells }
  if (isOfNow(taken, room)) keep(room, taken)
}

function takeCells(room: Room, start: number, count: number): Taken['cells'][number][] {
  const views = room.document.cells(start, count)
  return views.map((view) => ({ view, execution: room.executions.ofCell(view.cell_id) }))
}

function momentOf(room: Room): Omit<Taken, 'cells'> {
  return { document: room.document, doc_seq: room.docSeq, event_seq: room.events.last }
}

/** Whatever changes what cells are or show has a number. A room that was rebuilt, which uses numbers again, has another document. */
function isOfNow(taken: Omit<Taken, 'cells'>, room: Room): boolean {
  const now = momentOf(room)
  return taken.document === now.document && taken.doc_seq === now.doc_seq && taken.event_seq === now.event_seq
}

function keep(room: Room, taken: Taken): Taken {
  if (taken.cells.length >= MANY_CELLS) kept.set(room, taken)
  else kept.delete(room)
  return taken
}

function* missedEvents(read: () => Uint8Array[]): Generator<PictureValue> {
  for (const frame of read()) yield { type: FrameType.EVENT, make: () => frame }
}

function* cellPages(room: Room, taken: Taken): Generator<PictureValue> {
  const total = taken.cells.length
  let start = 0
  do {
    let end = start
    let bytes = 0
    const cells: Cell[] = []
    while (end < total && cells.length < PROJECTION_PAGE && bytes < PAGE_BYTES) {
      const entry = taken.cells[end++]
      if (!entry) break
      const cell = joinCell(room.executions, entry.view, entry.execution)
      bytes += weigh(cell)
      cells.push(cell)
    }
    const page: Projection = {
      kind: 'cells',
      start,
      total,
      cells,
      doc_seq: taken.doc_seq,
      event_seq: taken.event_seq,
      last: end >= total,
    }
    yield { type: FrameType.PROJECTION, make: () => encode(page) }
    start = end
  } while (start < total)
}

function replays(room: Room): Iterable<PictureValue> {
  const open = [room.executions.running, ...room.executions.queued].filter((e) => e !== null)
  const values: PictureValue[] = []
  for (const { execution_id } of open) {
    const events = room.executions.replay(execution_id)
    // Also without any: the peer may know of some that were cleared meanwhile.
    for (let i = 0; i === 0 || i < events.length; i++) {
      const replay: Projection = {
        kind: 'replay',
        execution_id,
        events: events.slice(i, i + 1),
        last: i >= events.length - 1,
      }
      values.push({ type: FrameType.PROJECTION, make: () => encode(replay) })
    }
  }
  return values
}

/** `always`: also when there are none, since the peer may know of some. */
function commPages(room: Room, always: boolean): PictureValue[] {
  const snapshots = room.executions.comms.snapshots()
  const pages: CommSnapshot[][] = snapshots.length > 0 || always ? [[]] : []
  let bytes = 0
  for (const snapshot of snapshots) {
    if (bytes > PAGE_BYTES) {
      pages.push([])
      bytes = 0
    }
    pages.at(-1)?.push(snapshot)
    // Large values are only named.
    for (const value of snapshot.values.values()) bytes += value.length > COMM_INLINE ? 64 : value.length + 32
    bytes += snapshot.bodyBytes
  }
  return pages.map((comms, i) => ({
    type: FrameType.PROJECTION,
    make: () =>
      encode({
        kind: 'comms',
        first: i === 0,
        comms: comms.map((comm) => viewOf(comm)),
        last: i === pages.length - 1,
      } satisfies Projection),
  }))
}

/** A cheap guess at a cell's bytes. Values over 8 KiB are not in it: they are references. */
function weigh(cell: Cell): number {
  let bytes = 512 + cell.source.length
  for (const output of cell.outputs) bytes += output.output_type === 'stream' ? 1024 : 2048
  if (cell.attachments) bytes += JSON.stringify(cell.attachments).length
  return bytes
}

/** One after the other. */
export function* chain(...parts: Iterable<PictureValue>[]): Generator<PictureValue> {
  for (const part of parts) yield* part
}
