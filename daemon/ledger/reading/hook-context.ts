/**
 * What a host may show its model when a session goes on (after /clear, a resume, a compaction): at most 2 KiB, the most useful first:
 * what was done, what is still to do, and the rooms to go back to with the call.
 */
import type { Reader } from '../../store/transaction.ts'
import { findSession, type SessionRow, summaryOf } from '../rows/sessions.ts'
import { ancestorsOf, openWorkItems, roomsOfChain } from './context.ts'

/** Bytes. */
const LONGEST = 2 * 1024
const ANCESTORS = 5

/** Empty: there is nothing worth telling. */
export function hookContext(reader: Reader, sessionId: string): string {
  const row = findSession(reader, sessionId)
  if (!row) return ''
  const chain = [row, ...ancestorsOf(reader, row, ANCESTORS)]
  const before = chain.flatMap(lineOf)
  const items = openWorkItems(reader, chain)
  const rooms = roomsOfChain(reader, chain)
  if (before.length === 0 && items.length === 0 && rooms.length === 0) return ''
  const lines = [`roomd session ${sessionId} goes on.`]
  if (rooms.length > 0) {
    lines.push('Notebooks that are still live, and the call that goes back to each:')
    for (const room of rooms.slice(0, 5))
      lines.push(
        `- connect_notebook ${JSON.stringify(room.connect.arguments)} (${room.cells_run} cells run, ${room.cells_failed} failed)`,
      )
  }
  if (items.length > 0) {
    lines.push('Still to do:')
    for (const item of items.slice(0, 8)) lines.push(`- ${item.work_id}: ${oneLine(item.description, 120)}`)
  }
  if (before.length > 0) lines.push('So far:', ...before)
  lines.push(`session_get_context {"session_id": ${JSON.stringify(sessionId)}} tells more.`)
  return wholeLines(lines)
}

function lineOf(row: SessionRow): string[] {
  const told = [summaryOf(row), row.last_prompt === '' ? '' : `began with: ${row.last_prompt}`].filter(
    (part) => part !== '',
  )
  return told.length === 0 ? [] : [`- ${row.session_id}: ${oneLine(told.join('; '), 300)}`]
}

function oneLine(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').trim()
  const points = [...line]
  return points.length <= most ? line : `${points.slice(0, most - 1).join('')}…`
}

/** Whole lines as long as they fit. */
function wholeLines(lines: readonly string[]): string {
  let text = ''
  for (const line of lines) {
    const longer = text === '' ? line : `${text}\n${line}`
    if (Buffer.byteLength(longer) > LONGEST) break
    text = longer
  }
  return text
}
