/**
 * Tool calls of a session, whoever told of them: its MCP child, hooks, or a tracker file. Those of a file are replaced as a whole
 * when the file is read again; one that is told twice under one `event_id` is one. Events that are too old are forgotten, but what they
 * came to is kept and counts.
 */
import type { Reader, Transaction } from '../../store/transaction.ts'
import { byCodePoint } from '../numbers.ts'
import { pythonJsonLine } from '../render/python-json.ts'
import type { TrackedCall } from '../tool-tracker.ts'

export interface ToolEvent {
  readonly at_text: string
  readonly tool: string | null
  readonly failed: boolean
  readonly file: string | null
  readonly source: 'mcp' | 'hook' | 'file'
  readonly event_id?: string | null
  readonly notebook_id?: string | null
  readonly line?: string | null
}

/** false: it was there. */
export function addToolEvent(transaction: Transaction, key: number, event: ToolEvent): boolean {
  const { changes } = transaction.run(
    `INSERT INTO ledger_tool_events (session_key, n, at_text, tool, failed, file, source, event_id, notebook_id, line)
     SELECT ?, coalesce((SELECT max(n) FROM ledger_tool_events WHERE session_key = ?), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ?
     WHERE true ON CONFLICT DO NOTHING`,
    key,
    key,
    event.at_text,
    event.tool,
    event.failed ? 1 : 0,
    event.file,
    event.source,
    event.event_id ?? null,
    event.notebook_id ?? null,
    event.line ?? null,
  )
  return changes > 0
}

/** A mirrored tree has in its tracker file what was told here: those lines are no calls of others. */
export function replaceTracked(transaction: Transaction, key: number, calls: readonly TrackedCall[]): void {
  transaction.run("DELETE FROM ledger_tool_events WHERE session_key = ? AND source = 'file'", key)
  const kept = forgottenOf(transaction, key)
  if (kept.tracked.calls > 0 || kept.tracked.malformed > 0)
    keepForgotten(transaction, key, { ...kept, tracked: NOTHING })
  const told = new Map<string, number>()
  for (const event of eventsOf(transaction, key)) {
    const line = trackerLine(event)
    told.set(line, (told.get(line) ?? 0) + 1)
  }
  for (const call of calls) {
    const same = told.get(call.line) ?? 0
    if (same > 0) {
      told.set(call.line, same - 1)
      continue
    }
    addToolEvent(transaction, key, {
      at_text: call.at,
      tool: call.tool,
      failed: call.failed,
      file: call.file,
      source: 'file',
      line: call.line,
    })
  }
}

interface EventRow {
  readonly at_text: string
  readonly tool: string | null
  readonly failed: number
  readonly file: string | null
  readonly line: string | null
}

/** In the order in which they were told. */
export function eventsOf(reader: Reader, key: number): EventRow[] {
  return reader.all<EventRow>(
    'SELECT at_text, tool, failed, file, line FROM ledger_tool_events WHERE session_key = ? ORDER BY n',
    key,
  )
}

/** As a line of `tool-tracker.jsonl`: the line it came from, else as the reference writes it. */
export function trackerLine(event: EventRow): string {
  return (
    event.line ??
    pythonJsonLine({
      ts: event.at_text.slice(0, 19),
      tool: event.tool,
      status: event.failed ? 'error' : 'success',
      progress_delta: 0,
      ...(event.file === null ? {} : { file: event.file }),
    })
  )
}

export interface ToolStatistics {
  readonly calls: number
  readonly errors: number
  /** Sorted by code point. */
  readonly modified: readonly string[]
  readonly read: readonly string[]
  /** Lines of the tracker that could not be read. */
  readonly malformed: number
}

const NOTHING: ToolStatistics = { calls: 0, errors: 0, modified: [], read: [], malformed: 0 }
const modifying = ['Write', 'Edit', 'MultiEdit', 'NotebookEdit']

export function toolStatistics(reader: Reader, key: number): ToolStatistics {
  const { told, tracked } = forgottenOf(reader, key)
  return sumOf(sumOf(statisticsOf(reader, key, 'true'), told), tracked)
}

/** Events of the session are deleted; what they came to goes on counting. */
export function forgetToolEvents(transaction: Transaction, key: number): void {
  const { told, tracked } = forgottenOf(transaction, key)
  keepForgotten(transaction, key, {
    told: sumOf(told, statisticsOf(transaction, key, "source <> 'file'")),
    tracked: sumOf(tracked, statisticsOf(transaction, key, "source = 'file'")),
  })
  transaction.run('DELETE FROM ledger_tool_events WHERE session_key = ?', key)
}

function statisticsOf(reader: Reader, key: number, which: string): ToolStatistics {
  const counts = reader.get<{ calls: number; errors: number; malformed: number }>(
    `SELECT count(tool) AS calls, coalesce(sum(failed), 0) AS errors, count(*) - count(tool) AS malformed
     FROM ledger_tool_events WHERE session_key = ? AND ${which}`,
    key,
  )
  const files = (tools: readonly string[]): string[] =>
    reader
      .all<{ file: string }>(
        `SELECT DISTINCT file FROM ledger_tool_events
         WHERE session_key = ? AND ${which} AND file IS NOT NULL AND tool IN (${tools.map(() => '?').join(', ')})`,
        key,
        ...tools,
      )
      .map((row) => row.file)
      .sort(byCodePoint)
  return {
    calls: counts?.calls ?? 0,
    errors: counts?.errors ?? 0,
    malformed: counts?.malformed ?? 0,
    modified: files(modifying),
    read: files(['Read']),
  }
}

function sumOf(a: ToolStatistics, b: ToolStatistics): ToolStatistics {
  const both = (x: readonly string[], y: readonly string[]): readonly string[] =>
    y.length === 0 ? x : [...new Set([...x, ...y])].sort(byCodePoint)
  return {
    calls: a.calls + b.calls,
    errors: a.errors + b.errors,
    malformed: a.malformed + b.malformed,
    modified: both(a.modified, b.modified),
    read: both(a.read, b.read),
  }
}

/** `told` by an MCP child or hooks, `tracked` by a file, which may be read again. */
interface Forgotten {
  readonly told: ToolStatistics
  readonly tracked: ToolStatistics
}

function forgottenOf(reader: Reader, key: number): Forgotten {
  const row = reader.get<{ forgotten_events: string | null }>(
    'SELECT forgotten_events FROM ledger_sessions WHERE session_key = ?',
    key,
  )
  return row?.forgotten_events
    ? (JSON.parse(row.forgotten_events) as Forgotten)
    : { told: NOTHING, tracked: NOTHING }
}

function keepForgotten(transaction: Transaction, key: number, forgotten: Forgotten): void {
  transaction.run(
    'UPDATE ledger_sessions SET forgotten_events = ? WHERE session_key = ?',
    JSON.stringify(forgotten),
    key,
  )
}
