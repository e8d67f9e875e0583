/**
 * `session_get_context`: what a session that goes on needs to know: the sessions before it, sessions like it, what is still to do, and
 * the rooms to go back to, each with the call.
 */
import type { LedgerRoom } from '../../../protocol/ledger.ts'
import type { Reader } from '../../store/transaction.ts'
import type { LedgerParams, LedgerResult } from '../call.ts'
import { nameFault } from '../grammar.ts'
import type { Failure } from '../outcome.ts'
import { summaryMarkdown } from '../render/summary-markdown.ts'
import { roomsOf } from '../rows/rooms-used.ts'
import { tagsOfSession } from '../rows/session-tags.ts'
import { findSession, type SessionRow, summaryOf } from '../rows/sessions.ts'
import { workItemResult, workItemsOf } from '../rows/work-items.ts'
import { isoText } from '../times.ts'
import { relatedSessions } from './related.ts'

/** Rooms and open work items that are told. */
const MOST = 20

export function getContext(
  reader: Reader,
  params: LedgerParams<'session_get_context'>,
  options: { compat: boolean },
): LedgerResult<'session_get_context'> | Failure {
  const { session_id, max_ancestors, max_related } = params
  const fault = nameFault(session_id, 'session_id')
  if (fault) return fault
  const row = findSession(reader, session_id)
  if (!row)
    return {
      success: true,
      session_id,
      ancestors: [],
      related: [],
      message: `Session not found: ${session_id}`,
    }
  const ancestors = ancestorsOf(reader, row, max_ancestors)
  const chain = [row, ...ancestors]
  return {
    success: true,
    session_id,
    current: {
      tags: tagsOfSession(reader, row.session_key),
      task_type: row.task_type,
      skill: row.skill,
      project: row.project,
      summary: summaryMarkdown(reader, row, options) ?? summaryOf(row),
    },
    ancestors: ancestors.map((ancestor) => ({
      session_id: ancestor.session_id,
      summary: summaryOf(ancestor),
      tags: tagsOfSession(reader, ancestor.session_key),
      task_type: ancestor.task_type,
      skill: ancestor.skill,
      created_at: ancestor.created_text,
    })),
    related: relatedSessions(reader, row, max_related, new Set(chain.map((one) => one.session_id))),
    chain_depth: ancestors.length,
    work_items: openWorkItems(reader, chain),
    rooms: roomsOfChain(reader, chain),
  }
}

/** Nearest first. Ends at a parent that has no record, and at one that was met already. */
export function ancestorsOf(reader: Reader, row: SessionRow, most: number): SessionRow[] {
  const found: SessionRow[] = []
  const met = new Set([row.session_id])
  for (let parent = row.parent; parent && found.length < most && !met.has(parent); ) {
    const next = findSession(reader, parent)
    if (!next) break
    met.add(parent)
    found.push(next)
    parent = next.parent
  }
  return found
}

export function openWorkItems(reader: Reader, chain: readonly SessionRow[]) {
  return chain
    .flatMap((row) =>
      workItemsOf(reader, row.session_key)
        .filter((item) => item.status === 'IN_PROGRESS')
        .map((item) => ({ ...workItemResult(item), session_id: row.session_id })),
    )
    .slice(0, MOST)
}

/** Each room once, where it was used last. */
export function roomsOfChain(reader: Reader, chain: readonly SessionRow[]): LedgerRoom[] {
  const rooms = chain
    .flatMap((row) => roomsOf(reader, row.session_key).map((room) => ({ room, row })))
    .sort((a, b) => b.room.last_us - a.room.last_us)
  const seen = new Set<string>()
  return rooms
    .filter(({ room }) => !seen.has(room.notebook_id) && seen.add(room.notebook_id))
    .slice(0, MOST)
    .map(({ room, row }) => ({
      notebook_id: room.notebook_id,
      path: room.path,
      session_id: row.session_id,
      cells_run: room.cells_run,
      cells_failed: room.cells_failed,
      last_used: isoText(room.last_us),
      connect: {
        tool: 'connect_notebook',
        arguments: room.path === null ? { notebook_id: room.notebook_id } : { path: room.path },
      },
    }))
}
