/**
 * The room's methods, one handler each. Three kinds: reads answer behind what is pending; changes commit together with their
 * result; effects outside the store (interrupt, save, kernel life) are marked as begun, done, then recorded.
 */
import { RoomdError } from '../../protocol/errors.ts'
import type { MethodArguments, MethodResult, RoomMethod } from '../../protocol/methods.ts'
import { isTerminal } from '../../protocol/notebook.ts'
import { readEditors } from '../documents/journal.ts'
import type { Kernel } from '../kernels/kernel.ts'
import { commHandlers } from './comm-requests.ts'
import type { Mutation } from './mutations.ts'
import type { Peer } from './peer.ts'
import { joinCell } from './picture.ts'
import type { Room } from './room.ts'
import { updateBinding } from './room-record.ts'
import { keepAliveOf } from './room-summary.ts'
import type { RequestContext } from './seam.ts'
import { mustBeOpen } from './source-states.ts'
import { resultOf } from './whole-change.ts'

export interface RoomCall {
  readonly room: Room
  readonly peer: Peer
  readonly context: RequestContext
  readonly mutation: Mutation | null
}

export type RoomHandler<M extends RoomMethod> = (
  call: RoomCall,
  args: MethodArguments<M>,
) => Promise<MethodResult<M>>

export const roomHandlers: { readonly [M in RoomMethod]: RoomHandler<M> } = {
  ...commHandlers,

  async get_cells({ room }, { start, count }) {
    const { document, executions } = room
    const total = document.cellCount
    const cells = document
      .cells(start, count)
      .map((view) => joinCell(executions, view, executions.ofCell(view.cell_id)))
    const next = start + cells.length
    const value = {
      cells,
      total,
      start,
      ...(next < total ? { next_start: next } : {}),
      doc_seq: room.docSeq,
      event_seq: room.events.last,
    }
    await room.settled()
    return value
  },

  async get_cell({ room }, { cell_id }) {
    const view = room.document.cell(cell_id)
    if (!view) {
      throw new RoomdError('not_found', `no cell ${cell_id} in this notebook; get_all_cells lists the ids`, {
        next: { tool: 'get_all_cells', arguments: {} },
      })
    }
    const shown = room.executions.ofCell(cell_id)
    const cell = joinCell(room.executions, view, shown)
    // One cell alone also tells the output so far.
    if (shown && !isTerminal(shown.status)) cell.outputs = room.executions.outputs(shown.execution_id)
    const value = { cell, doc_seq: room.docSeq, event_seq: room.events.last }
    await room.settled()
    return value
  },

  edit({ room, peer, context, mutation }, { operations }) {
    return room.edits.take({
      by: peer.identity.label,
      operations,
      mutation,
      check: (ahead) => {
        room.mustMutate()
        mustBeOpen(room.record.source, operations)
        expectCounters(room, context, ahead)
      },
    })
  },

  async clear_outputs({ room, context, mutation }, { cell_ids }) {
    room.mustMutate()
    expectCounters(room, context)
    const { cellIds, statements, events } = room.executions.clearOutputs(cell_ids)
    const value = { cell_ids: cellIds, event_seq: room.events.last + events.length }
    await room.commit({ statements, events, ...resultOf(mutation, value) })
    return value
  },

  async execute(
    { room, peer, context, mutation },
    { cell_id, code, on_error, allow_stdin, expect_source_hash },
  ) {
    await room.terms.mustHaveKernelspec()
    room.mustMutate()
    expectCounters(room, context)
    if (cell_id !== undefined) mustBeCode(room, cell_id, expect_source_hash)
    const queued = room.executions.execute({
      ...(cell_id === undefined ? {} : { cell_id }),
      ...(code === undefined ? {} : { code }),
      on_error,
      allow_stdin,
      by: peer.identity.label,
    })
    const { execution, already_active, statements, events } = queued
    const value = { execution, already_active, event_seq: room.events.last + events.length }
    const change = {
      statements,
      events,
      ...(code === undefined ? {} : { code }),
      ...resultOf(mutation, value),
    }
    await room.commit(change, () => {
      if (!already_active) room.executions.admitted([execution.execution_id])
    })
    return value
  },

  async run_all({ room, peer, context, mutation }, { on_error, allow_stdin, expect_sources }) {
    await room.terms.mustHaveKernelspec()
    room.mustMutate()
    expectCounters(room, context)
    if (expect_sources !== undefined) mustBeSources(room, expect_sources)
    const queued = room.executions.runAll({ on_error, allow_stdin, by: peer.identity.label })
    const { executions, statements, events } = queued
    const value = { executions, event_seq: room.events.last + events.length }
    await room.commit({ statements, events, ...resultOf(mutation, value) }, () => {
      room.executions.admitted(executions.map((execution) => execution.execution_id))
    })
    return value
  },

  async list_executions({ room }, { limit }) {
    const value = { executions: room.executions.list(limit) }
    await room.settled()
    return value
  },

  async list_edits({ room }, { after }) {
    // Committed ones are in the store.
    await room.settled()
    const { docSeq } = room
    const editors = readEditors(room.store, room.id, after)
    return { editors, edits: Math.max(0, docSeq - after), doc_seq: docSeq }
  },

  cancel_execution: (call, { execution_id }) =>
    effect(call, async () => ({ execution: await call.room.executions.cancel(execution_id) })),

  send_input: (call, { execution_id, value }) =>
    effect(call, async () => {
      await call.room.executions.sendInput(execution_id, value, call.peer.identity.label)
      return { accepted: true as const }
    }),

  interrupt: (call) =>
    effect(call, async (begunAt) => {
      const { running } = call.room.executions
      // Sent again after a crash: what runs now began after it and is not what was meant.
      if (begunAt !== null && running && (running.started_at ?? 0) > begunAt)
        return { interrupted: null, cancelled: [] }
      return call.room.executions.interrupt()
    }),

  restart_kernel: (call, { kernel, reset }) =>
    effect(call, async (begunAt) => {
      const { room } = call
      const present = room.presentKernel ? room.slot.summary(false) : null
      if (reset) await room.terms.resetBreaker()
      else room.terms.mustNotHaveTripped()
      if (begunAt !== null && present && (present.started_at ?? 0) > begunAt) return { kernel: present }
      await room.slot.end('restarted', 'the kernel was restarted')
      if (kernel !== undefined) await room.terms.choose(kernel)
      await room.slot.want(kernel)
      const started = room.kernelSummary()
      if (!started || started.state === 'dead')
        throw new RoomdError('kernel_died', started?.reason ?? 'the kernel ended right after its start')
      return { kernel: started }
    }),

  set_keep_alive: (call, { keep_alive }) =>
    effect(call, async () => {
      const ms = keep_alive === 'default' ? null : keep_alive === 'pinned' ? -1 : keep_alive * 1000
      await call.room.terms.keep(ms)
      return { keep_alive: keepAliveOf(call.room) }
    }),

  shutdown_kernel: (call) =>
    effect(call, async () => ({ ended: await call.room.slot.end('shutdown', 'the kernel was shut down') })),

  async complete({ room, context }, { code, cursor }) {
    const reply = await mustHaveKernel(room).ask(
      'complete_request',
      { code, cursor_pos: cursor },
      context.signal,
    )
    return {
      matches: Array.isArray(reply.matches) ? reply.matches.map(String) : [],
      cursor_start: toIndex(reply.cursor_start, cursor),
      cursor_end: toIndex(reply.cursor_end, cursor),
      metadata: toRecord(reply.metadata),
    }
  },

  async inspect({ room, context }, { code, cursor, detail_level }) {
    const reply = await mustHaveKernel(room).ask(
      'inspect_request',
      { code, cursor_pos: cursor, detail_level },
      context.signal,
    )
    return { found: reply.found === true, data: toRecord(reply.data) }
  },

  save: (call, { path }) => effect(call, () => call.room.source.save(path)),

  async source_status({ room }) {
    const { source, path, autosave, doc_seq, saved_doc_seq } = room.record
    const value = {
      notebook_id: room.id,
      path,
      source_state: source.state,
      ...(source.reason === undefined ? {} : { reason: source.reason }),
      conflicts: (source.conflicts ?? []).map(({ cell_id, base, disk }) => ({
        cell_id,
        base,
        room: room.document.cell(cell_id)?.source ?? null,
        disk,
      })),
      ...(source.warnings ? { warnings: source.warnings } : {}),
      autosave,
      doc_seq,
      saved_doc_seq,
    }
    await room.settled()
    return value
  },

  reconcile_source: (call, { keep }) =>
    effect(call, () => call.room.source.reconcile(keep, call.peer.identity.label)),

  async set_autosave({ room, mutation }, { autosave }) {
    room.record.autosave = autosave
    const value = { autosave }
    await room.commit({ statements: [updateBinding(room.record)], ...resultOf(mutation, value) })
    room.source.autosave.changed()
    return value
  },
}

/** Runs an effect that is no transaction of its own: begun is durable before it, its outcome after it. */
async function effect<T>(call: RoomCall, run: (begunAt: number | null) => Promise<T>): Promise<T> {
  const { room, mutation, context } = call
  if (room.fault) throw room.fault
  expectCounters(room, context)
  if (!mutation) return run(null)
  const { mutations } = room.surroundings
  await mutations.begin(mutation)
  try {
    const value = await run(mutation.begunAt)
    await mutations.finish(mutation, { value })
    return value
  } catch (error) {
    await mutations.finish(mutation, { error })
    throw error
  }
}

/** `ahead`: by how much the document is ahead of `docSeq`. */
function expectCounters(room: Room, { expect }: RequestContext, ahead = 0): void {
  const docSeq = room.docSeq + ahead
  if (expect?.doc_seq !== undefined && expect.doc_seq !== docSeq) {
    throw new RoomdError(
      'conflict',
      `the document is at ${docSeq}, not at ${expect.doc_seq}: read it again and decide anew`,
      {
        cause: { doc_seq: docSeq },
        next: { tool: 'get_all_cells', arguments: {} },
      },
    )
  }
  const eventSeq = room.events.last
  if (expect?.event_seq !== undefined && expect.event_seq !== eventSeq) {
    throw new RoomdError(
      'conflict',
      `the runtime is at event ${eventSeq}, not at ${expect.event_seq}: read it again`,
      {
        cause: { event_seq: eventSeq },
      },
    )
  }
}

function mustBeCode(room: Room, cellId: Parameters<Room['cell']>[0], expectedHash: string | undefined): void {
  const cell = room.cell(cellId)
  if (!cell) {
    throw new RoomdError('not_found', `no cell ${cellId} in this notebook; get_all_cells lists the ids`, {
      next: { tool: 'get_all_cells', arguments: {} },
    })
  }
  if (cell.cell_type !== 'code') {
    throw new RoomdError(
      'invalid_argument',
      `cell ${cellId} is a ${cell.cell_type} cell; only code cells run`,
    )
  }
  if (expectedHash !== undefined && expectedHash !== cell.source_hash) {
    throw new RoomdError('conflict', `cell ${cellId} has changed since it was read; it was not run`, {
      cause: { source: cell.source, source_hash: cell.source_hash },
      next: { tool: 'get_cell', arguments: { cell_id: cellId } },
    })
  }
}

/** Every code cell, and nothing else, with the source that the caller has seen. Other cells may change. */
function mustBeSources(room: Room, expected: Readonly<Record<string, string>>): void {
  const ids = room.codeCells()
  const changed = ids.filter((id) => room.cell(id)?.source_hash !== expected[id])
  const gone = Object.keys(expected).filter((id) => !ids.some((cellId) => cellId === id))
  if (changed.length === 0 && gone.length === 0) return
  throw new RoomdError('conflict', 'code cells have changed since they were read; nothing was run', {
    cause: { changed, gone },
    next: { tool: 'get_all_cells', arguments: {} },
  })
}

function mustHaveKernel(room: Room): Kernel {
  const kernel = room.presentKernel
  if (kernel) return kernel
  throw new RoomdError('runtime_not_ready', 'no kernel is running in this room; run a cell to start one', {
    retryable: false,
  })
}

function toIndex(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : otherwise
}

function toRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}
