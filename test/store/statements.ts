/** Statements that tests of the store write. */
import type { Statement } from '../../daemon/store/store.ts'

export const ROOM = '00000000-0000-4000-8000-000000000001'

export function addRoom(id = ROOM, title = 'A notebook'): Statement {
  return {
    sql: `INSERT INTO rooms (notebook_id, kind, title, working_dir, created_at, touched_at)
          VALUES (?, 'standalone', ?, '/', 1, 1)`,
    values: [id, title],
  }
}

export function addUpdate(seq: number, body = new Uint8Array([seq & 255]), room = ROOM): Statement {
  return {
    sql: 'INSERT INTO doc_updates (notebook_id, doc_seq, body, origin, at) VALUES (?, ?, ?, ?, ?)',
    values: [room, seq, body, 'test', 1],
  }
}
