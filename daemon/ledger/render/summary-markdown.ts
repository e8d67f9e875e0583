/**
 * The markdown summary of a finalized session, in the reference's layout, and behind it what it does not have: notebooks, work items,
 * the text that people wrote. A rendering of rows; nothing is stored. Values in tables are escaped unless `compat`.
 */
import type { Reader } from '../../store/transaction.ts'
import { PyFloat } from '../numbers.ts'
import { type RoomUse, roomsOf } from '../rows/rooms-used.ts'
import type { SessionRow } from '../rows/sessions.ts'
import { derivedOf, requestsOf, seenValues, totalsOf } from '../rows/totals.ts'
import { type WorkItemRow, workItemsOf } from '../rows/work-items.ts'
import { isoSeconds } from '../times.ts'
import { averageText } from './summary-line.ts'

/** null: the session was never finalized. No line end at the end. */
export function summaryMarkdown(
  reader: Reader,
  row: SessionRow,
  options: { compat: boolean },
): string | null {
  const totals = totalsOf(reader, row.session_key)
  const derived = derivedOf(totals)
  if (!totals || !derived) return null
  const cell = options.compat ? (text: string) => text : escapeCell
  const list = (values: readonly string[]): string => (values.length === 0 ? 'None' : cell(values.join(', ')))
  const seen = (kind: Parameters<typeof seenValues>[2]) => seenValues(reader, row.session_key, kind)
  const lines: string[] = [
    `# Session Summary: ${row.session_id}`,
    '',
    `**Duration:** ${derived.duration === '' ? 'N/A' : derived.duration} | **Requests:** ${totals.requests} | **Complexity:** avg ${averageText(totals.requests, derived.average)}, max ${totals.max_complexity}`,
    '',
    '## Overview',
    '',
    '| Metric | Value |',
    '|--------|-------|',
    `| Skills Used | ${list(seen('skill'))} |`,
    `| Task Types | ${list(seen('task_type'))} |`,
    `| Models Used | ${list(seen('model'))} |`,
    `| Plan Mode | ${totals.plan_mode} times |`,
    `| Peak Context | ${totals.peak_context}% |`,
    `| Tool Calls | ${derived.toolCalls} (success rate: ${new PyFloat(derived.successRate)}%) |`,
    `| Files Modified | ${derived.filesModified.length} |`,
    `| Files Read | ${derived.filesRead.length} |`,
    `| Policies Executed | ${derived.policies} (${derived.policyMs}ms total) |`,
    '',
  ]
  const supplementary = seen('supplementary')
  if (supplementary.length > 0) lines.push(`**Supplementary Skills:** ${supplementary.join(', ')}`, '')
  lines.push(
    '## Request Log',
    '',
    '| # | Time | Type | Skill | Complexity | Model |',
    '|---|------|------|-------|-----------|-------|',
    ...requestsOf(reader, row.session_key).map(
      (request) =>
        `| ${request.n} | ${cell(request.at_text.slice(0, 19))} | ${cell(request.task_type)} | ${cell(request.skill)} | ${request.complexity} | ${cell(request.model)} |`,
    ),
    '',
  )
  if (derived.filesModified.length > 0)
    lines.push('## Files Modified', '', ...derived.filesModified.map((file) => `- ${file}`), '')
  if (derived.decisions.length > 0)
    lines.push(
      '## Pipeline Decisions',
      '',
      ...derived.decisions.slice(-10).map(({ policy, decision }) => `- **${policy}**: ${decision}`),
      '',
    )
  if (!options.compat) lines.push(...ourSections(reader, row, cell))
  lines.push('---', `*Generated at ${isoSeconds(row.finalized_us ?? row.updated_us)}*`)
  return lines.join('\n')
}

function ourSections(reader: Reader, row: SessionRow, cell: (text: string) => string): string[] {
  const lines: string[] = []
  const rooms = roomsOf(reader, row.session_key)
  if (rooms.length > 0) lines.push(...roomTable(rooms, cell), '')
  const items = workItemsOf(reader, row.session_key)
  if (items.length > 0) lines.push('## Work Items', '', ...items.map(itemLine), '')
  if (row.user_summary !== '') lines.push('## Notes', '', row.user_summary, '')
  return lines
}

export function roomTable(rooms: readonly RoomUse[], cell = escapeCell): string[] {
  return [
    '## Notebooks',
    '',
    '| Notebook | Cells Run | Failed |',
    '|----------|-----------|--------|',
    ...rooms.map(
      (room) => `| ${cell(room.path ?? room.notebook_id)} | ${room.cells_run} | ${room.cells_failed} |`,
    ),
  ]
}

function itemLine(item: WorkItemRow): string {
  const mark = item.status === 'COMPLETED' ? 'x' : ' '
  const state = item.status === 'COMPLETED' || item.status === 'IN_PROGRESS' ? '' : ` (${item.status})`
  return `- [${mark}] ${item.work_id}: ${item.description.replace(/\s+/g, ' ')}${state}`
}

function escapeCell(text: string): string {
  return text
    .replace(/\\/g, '\\\\')
    .replace(/\|/g, '\\|')
    .replace(/\r\n|[\r\n]/g, ' ')
}
