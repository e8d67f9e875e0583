/** Keeps an event for the daemon to take up later: one file, complete and on disk before it has its name. */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'

export interface HookEvent {
  readonly event: string
  readonly event_id: string
  /** Epoch milliseconds. */
  readonly at: number
  readonly input: Readonly<Record<string, unknown>>
}

/** Names sort by time. Throws when it cannot be written. */
export function spoolEvent(folder: string, event: HookEvent): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const name = `${String(Math.floor(event.at)).padStart(15, '0')}-${String(process.hrtime.bigint()).padStart(20, '0')}-${event.event_id}`
  const fresh = join(folder, `${name}.new`)
  const fd = openSync(fresh, 'wx', 0o600)
  try {
    writeSync(fd, JSON.stringify(event))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(fresh, join(folder, `${name}.json`))
}
