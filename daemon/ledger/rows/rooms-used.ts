/** Rooms in which a session worked, and what ran there. The executions' own rows know best how they ended, while they are kept. */
import type { Reader, Transaction } from '../../store/transaction.ts'

export interface RoomUse {
  readonly notebook_id: string
  readonly path: string | null
  readonly calls: number
  readonly last_us: number
  readonly cells_run: number
  readonly cells_failed: number
}

export function useRoom(
  transaction: Transaction,
  key: number,
  room: { notebook_id: string; path: string | null },
  now: number,
  calls: number,
): void {
  transaction.run(
    `INSERT INTO ledger_rooms (session_key, notebook_id, path, calls, first_us, last_us) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (session_key, notebook_id) DO UPDATE SET
       path = coalesce(excluded.path, path), calls = calls + excluded.calls, last_us = excluded.last_us`,
    key,
    room.notebook_id,
    room.path,
    calls,
    now,
    now,
  )
}

export function noteExecution(
  transaction: Transaction,
  key: number,
  execution: { execution_id: string; notebook_id: string; status: string },
): void {
  transaction.run(
    `INSERT INTO ledger_executions (session_key, execution_id, notebook_id, status) VALUES (?, ?, ?, ?)
     ON CONFLICT (session_key, execution_id) DO UPDATE SET status = excluded.status`,
    key,
    execution.execution_id,
    execution.notebook_id,
    execution.status,
  )
}

/** Last used first; paths as they are now, where the room is still known. */
export function roomsOf(reader: Reader, key: number): RoomUse[] {
  return reader.all<RoomUse>(
    `SELECT r.notebook_id, coalesce(known.path, r.path) AS path, r.calls, r.last_us,
       (SELECT count(*) FROM ledger_executions e WHERE e.session_key = r.session_key AND e.notebook_id = r.notebook_id) AS cells_run,
       (SELECT count(*) FROM ledger_executions e LEFT JOIN executions x USING (execution_id)
        WHERE e.session_key = r.session_key AND e.notebook_id = r.notebook_id
          AND coalesce(x.status, e.status) IN ('error', 'lost')) AS cells_failed
     FROM ledger_rooms r LEFT JOIN rooms known USING (notebook_id)
     WHERE r.session_key = ? ORDER BY r.last_us DESC, r.notebook_id`,
    key,
  )
}
