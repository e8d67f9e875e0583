/**
 * A path that a room has for its file may become another name of it: the file is moved and a link put in its place (git-annex, DVC), or a
 * folder above it. Whoever opens the file then, by whatever name, asks for its real path, which the room does not have yet.
 */
import { realpath } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import type { Store } from '../store/store.ts'
import { type RoomRecord, recordByPath } from './room-record.ts'

/** Rooms whose file is called the same that are looked at, at most. */
const MOST_NAMES = 200

/** The room whose path leads to this file now. `path`: canonical, of no room; `given`: as it was asked for. */
export async function roomByOtherName(
  store: Store,
  path: string,
  given: string,
): Promise<RoomRecord | undefined> {
  const end = `/${basename(path)}`
  const rows = store.all<{ path: string }>(
    'SELECT path FROM rooms WHERE path IS NOT NULL AND substr(path, ?) = ? LIMIT ?',
    -[...end].length,
    end,
    MOST_NAMES,
  )
  for (const name of new Set([resolve(given), ...rows.map((row) => row.path)])) {
    if (name === path) continue
    const record = recordByPath(store, name)
    if (record && (await leadsTo(name, path))) return record
  }
  return undefined
}

async function leadsTo(name: string, path: string): Promise<boolean> {
  // What is not there leads nowhere.
  return (await realpath(name).catch(() => null)) === path
}
