/**
 * Names of the files in a kernel's own folder, `<state>/kernels/<kernel_id>/` (0700). Everything that a new host or a new daemon
 * needs to take a kernel over lies here, never in the runtime folder, which may vanish.
 */
import { appendFileSync, closeSync, openSync, readSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'

export interface KernelFolder {
  readonly path: string
  /** HostLaunch; written by the daemon before each host it starts. */
  readonly launch: string
  /** HostRecord; written by the host. */
  readonly host: string
  /** Jupyter connection file. */
  readonly connection: string
  readonly sends: string
  readonly spool: string
  /** stderr and stdout of the kernel process itself. */
  readonly kernelLog: string
  readonly hostLog: string
}

export function kernelFolder(path: string): KernelFolder {
  return {
    path,
    launch: join(path, 'launch.json'),
    host: join(path, 'host.json'),
    connection: join(path, 'connection.json'),
    sends: join(path, 'sends.log'),
    spool: join(path, 'spool'),
    kernelLog: join(path, 'kernel.log'),
    hostLog: join(path, 'host.log'),
  }
}

/** The last whole lines of a log, at most `limit` bytes; empty when there is no file. */
export function lastLines(path: string, limit = 4096): string {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
  try {
    const { size } = statSync(path)
    const bytes = Buffer.alloc(Math.min(limit, size))
    const read = readSync(file, bytes, 0, bytes.length, size - bytes.length)
    const text = bytes.toString('utf8', 0, read)
    // A tail that begins in the middle of a line begins with the next one, unless it is all one line.
    const start = size > bytes.length ? text.indexOf('\n') + 1 : 0
    return text.slice(start < text.length ? start : 0).trimEnd()
  } finally {
    closeSync(file)
  }
}

/** Keeps a log that others append to under `limit` bytes: its last lines stay. */
export function trimLog(path: string, limit: number): void {
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) <= limit) return
  const rest = lastLines(path, 64 * 1024)
  // Writers have it open for appending, so they go on behind what is left. Lines written in between are lost.
  truncateSync(path)
  appendFileSync(path, `${rest}\n`)
}
