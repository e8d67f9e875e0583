/**
 * Tool calls of a session, whoever told of them: its MCP child, hooks, or a tracker file. Those of a file are replaced as a whole
 * when the file is read again; one that is told twice under one `event_id` is one.
 */
import type { Reader, Transaction } from '../../store/transaction.ts'
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

export function replaceTracked(transaction: Transaction, key: number, calls: readonly TrackedCall[]): void {
  transaction.run("DELETE FROM ledger_tool_events WHERE session_key = ? AND source = 'file'", key)
  for (const call of calls)
    addToolEvent(transaction, key, {
      at_text: call.at,
      tool: call.tool,
      failed: call.failed,
      file: call.file,
      source: 'file',
      line: call.line,
    })
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

const modifying = ['Write', 'Edit', 'MultiEdit', 'NotebookEdit']

export function toolStatistics(reader: Reader, key: number): ToolStatistics {
  const counts = reader.get<{ calls: number; errors: number; malformed: number }>(
    `SELECT count(tool) AS calls, coalesce(sum(failed), 0) AS errors, count(*) - count(tool) AS malformed
     FROM ledger_tool_events WHERE session_key = ?`,
    key,
  )
  const files = (tools: readonly string[]): string[] =>
    reader
      .all<{ file: string }>(
        `SELECT DISTINCT file FROM ledger_tool_events
         WHERE session_key = ? AND file IS NOT NULL AND tool IN (${tools.map(() => '?').join(', ')}) ORDER BY file`,
        key,
        ...tools,
      )
      .map((row) => row.file)
  return {
    calls: counts?.calls ?? 0,
    errors: counts?.errors ?? 0,
    malformed: counts?.malformed ?? 0,
    modified: files(modifying),
    read: files(['Read']),
  }
}
