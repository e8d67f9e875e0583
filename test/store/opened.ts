/** Stores in temporary folders that are gone after the test. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import { type OpenOptions, openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { ROOM } from './statements.ts'

export const silent = pino({ level: 'silent' })

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-store-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Closed when the test ends, also when it fails. */
export async function openTestStore(
  file = join(temporaryFolder(), 'roomd.db'),
  options: Partial<OpenOptions> = {},
): Promise<Store> {
  const store = await openStore({ file, log: silent, ...options })
  onTestFinished(() => store.close())
  return store
}

export function seqs(store: Store, room = ROOM): number[] {
  return store
    .all<{ doc_seq: number }>('SELECT doc_seq FROM doc_updates WHERE notebook_id = ? ORDER BY doc_seq', room)
    .map((row) => row.doc_seq)
}
