/**
 * Makes a new room durable. A small one is one transaction. A large one with thousands of outputs is several, so that neither the main
 * thread nor what other rooms commit waits for all of it; its row names no path until the last of them. A row that says its room is
 * in place and has no path is therefore a making that did not come to its end: nobody has seen it, and the next daemon removes it.
 */
import { Breathing } from '../breathing.ts'
import type { PreparedFileOutputs } from '../executions/file-outputs.ts'
import type { Statement, Store } from '../store/store.ts'
import type { NewRoom } from './opening.ts'
import type { RoomExecutions } from './parts.ts'
import { insertRecord, UNFINISHED, updateBinding } from './room-record.ts'

/** Cells with outputs that are taken in one step: a few milliseconds. */
const CELLS = 50

/**
 * Removes rooms whose making never came to its end; `under`: ids of those that are being made (and other texts). For the start, before rooms
 * are read, and for later, when a full disk kept a failed making from being removed. Without any, nothing is written.
 */
export async function removeUnfinished(store: Store, under: readonly string[] = []): Promise<void> {
  const left = store
    .all<{ notebook_id: string }>(`SELECT notebook_id FROM rooms WHERE ${UNFINISHED}`)
    .filter(({ notebook_id }) => !under.includes(notebook_id))
  if (left.length === 0) return
  await store.write(
    left.map(({ notebook_id }) => ({
      sql: `DELETE FROM rooms WHERE notebook_id = ? AND ${UNFINISHED}`,
      values: [notebook_id],
    })),
  )
}

/** Rejects with the storage error; nothing of the room is in the store then. `rows`: of the caller, in the last transaction. */
export async function storeNewRoom(
  store: Store,
  made: NewRoom,
  executions: RoomExecutions,
  rows: readonly Statement[],
): Promise<void> {
  const { parts, outputs, snapshot } = made
  const { record } = parts
  if (outputs.length <= CELLS || record.path === null) {
    const taken = executions.takeFileOutputs(outputs)
    await store.write([insertRecord(record), ...made.rows, ...snapshot, ...taken.statements, ...rows])
    return
  }
  const breathing = new Breathing()
  const under: Promise<void>[] = []
  const handOver = (unit: readonly Statement[]): void => {
    const written = store.write([...unit])
    // Awaited below; until then it is nobody's, and must not count as unhandled.
    written.catch(() => {})
    under.push(written)
  }
  try {
    handOver([insertRecord({ ...record, path: null })])
    for (const piece of cut(outputs)) {
      await breathing.pause()
      handOver(executions.takeFileOutputs(piece).statements)
    }
    await breathing.pause()
    handOver(made.rows)
    await Promise.all(under)
    await store.write([...snapshot, updateBinding(record), ...rows])
  } catch (error) {
    await Promise.allSettled(under)
    const { notebook_id } = record
    // What cannot be removed now, the next daemon removes.
    await store
      .write([{ sql: 'DELETE FROM rooms WHERE notebook_id = ?', values: [notebook_id] }])
      .catch(() => {})
    throw error
  }
}

function* cut(outputs: readonly PreparedFileOutputs[]): Generator<PreparedFileOutputs[]> {
  for (let at = 0; at < outputs.length; at += CELLS) yield outputs.slice(at, at + CELLS)
}
