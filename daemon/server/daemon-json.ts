/**
 * `<runtime>/daemon.json`: tells people and tools which daemon serves a home. Information, never a lock: whoever needs
 * certainty asks the daemon at the socket. It appears once the socket answers, whole or not at all.
 */
import { readFileSync, unlinkSync } from 'node:fs'
import { z } from 'zod'
import type { BootId } from '../../protocol/ids.ts'
import { lazily } from '../../protocol/lazily.ts'
import { replaceFile } from '../../protocol/small-files.ts'

export interface DaemonJson {
  readonly pid: number
  readonly boot_id: BootId
  readonly version: string
  readonly socket: string
  /** URL of the HTTP listener, null when it is off. */
  readonly http: string | null
  /** Its port. */
  readonly http_port: number | null
  /** Epoch ms. */
  readonly started_at: number
}

/** Not synced to disk: it tells about a process, and no process survives a power cut. */
export function writeDaemonJson(file: string, content: DaemonJson): void {
  replaceFile(file, `${JSON.stringify(content, null, 2)}\n`, { outlives: 'process' })
}

const Owner = lazily(() => z.object({ boot_id: z.string() }))

/** Removes the file if it still tells of this daemon. A missing, unreadable or foreign file is left alone: it is not ours. */
export function removeDaemonJson(file: string, bootId: BootId): void {
  let owner: string
  try {
    owner = Owner.parse(JSON.parse(readFileSync(file, 'utf8'))).boot_id
  } catch {
    return
  }
  if (owner === bootId) unlinkSync(file)
}
