/** Rows of comms, of their state, and of messages on their way to the kernel: one place for their statements. */
import { decode, encode } from '../../../protocol/codec.ts'
import type { CommId } from '../../../protocol/comms.ts'
import type { KernelId, NotebookId } from '../../../protocol/ids.ts'
import type { Statement, Store } from '../../store/store.ts'
import type { CommBody, OpenComm } from './comm.ts'

/** A message to the kernel. */
export interface Outgoing {
  readonly msg_type: 'comm_open' | 'comm_msg' | 'comm_close'
  readonly content: Record<string, unknown>
  readonly metadata: Record<string, unknown>
  readonly buffers: Uint8Array[]
}

export interface SendRow {
  readonly message_id: string
  readonly send_seq: number
  readonly kernel_id: KernelId
  readonly comm_id: CommId
  readonly names: readonly string[]
}

/** The comm's own row; its state has rows of its own. */
export function storeComm(notebookId: NotebookId, kernelId: KernelId, comm: OpenComm): Statement {
  return {
    sql: 'INSERT OR REPLACE INTO comms (notebook_id, comm_id, kernel_id, opened, body) VALUES (?, ?, ?, ?, ?)',
    values: [notebookId, comm.id, kernelId, comm.opened, encode(comm.body)],
  }
}

export function storeValue(notebookId: NotebookId, id: CommId, name: string, value: Uint8Array): Statement {
  return {
    sql: 'INSERT OR REPLACE INTO comm_state (notebook_id, comm_id, name, value) VALUES (?, ?, ?, ?)',
    values: [notebookId, id, name, value],
  }
}

export function dropValue(notebookId: NotebookId, id: CommId, name: string): Statement {
  return {
    sql: 'DELETE FROM comm_state WHERE notebook_id = ? AND comm_id = ? AND name = ?',
    values: [notebookId, id, name],
  }
}

export function dropState(notebookId: NotebookId, id: CommId): Statement {
  return {
    sql: 'DELETE FROM comm_state WHERE notebook_id = ? AND comm_id = ?',
    values: [notebookId, id],
  }
}

export function dropComm(notebookId: NotebookId, id: CommId): Statement {
  return { sql: 'DELETE FROM comms WHERE notebook_id = ? AND comm_id = ?', values: [notebookId, id] }
}

/** Everything of the room: its kernel is gone. */
export function dropAll(notebookId: NotebookId): Statement[] {
  return ['comms', 'comm_state', 'comm_sends'].map((table) => ({
    sql: `DELETE FROM ${table} WHERE notebook_id = ?`,
    values: [notebookId],
  }))
}

export function storeSend(notebookId: NotebookId, row: SendRow, body: Outgoing): Statement {
  return {
    sql: `INSERT OR REPLACE INTO comm_sends (notebook_id, message_id, send_seq, kernel_id, comm_id, names, body)
      VALUES (?, ?, ?, ?, ?, ?, ?)`,
    values: [
      notebookId,
      row.message_id,
      row.send_seq,
      row.kernel_id,
      row.comm_id,
      JSON.stringify(row.names),
      encode(body),
    ],
  }
}

export function dropSend(notebookId: NotebookId, messageId: string): Statement {
  return {
    sql: 'DELETE FROM comm_sends WHERE notebook_id = ? AND message_id = ?',
    values: [notebookId, messageId],
  }
}

export interface StoredComm {
  readonly comm_id: CommId
  readonly kernel_id: KernelId
  readonly opened: number
  readonly body: CommBody
}

/** In the order they were opened. */
export function readComms(store: Store, notebookId: NotebookId): StoredComm[] {
  return store
    .all<Omit<StoredComm, 'body'> & { body: Uint8Array }>(
      'SELECT comm_id, kernel_id, opened, body FROM comms WHERE notebook_id = ? ORDER BY opened',
      notebookId,
    )
    .map((row) => ({ ...row, body: decode(row.body) as CommBody }))
}

/** One value of a comm's state, encoded. */
export interface StateRow {
  readonly comm_id: CommId
  readonly name: string
  readonly value: Uint8Array
}

export function readState(store: Store, notebookId: NotebookId): StateRow[] {
  return store.all('SELECT comm_id, name, value FROM comm_state WHERE notebook_id = ?', notebookId)
}

/** In the order they are to be sent. */
export function readSends(store: Store, notebookId: NotebookId): (SendRow & { readonly bytes: number })[] {
  return store
    .all<Omit<SendRow, 'names'> & { names: string; bytes: number }>(
      `SELECT message_id, send_seq, kernel_id, comm_id, names, length(body) AS bytes FROM comm_sends
       WHERE notebook_id = ? ORDER BY send_seq`,
      notebookId,
    )
    .map((row) => ({ ...row, names: JSON.parse(row.names) as string[] }))
}

export function readSend(store: Store, notebookId: NotebookId, messageId: string): Outgoing | undefined {
  const row = store.get<{ body: Uint8Array }>(
    'SELECT body FROM comm_sends WHERE notebook_id = ? AND message_id = ?',
    notebookId,
    messageId,
  )
  return row && (decode(row.body) as Outgoing)
}
