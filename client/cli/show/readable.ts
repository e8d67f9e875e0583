/** Numbers as people read them. */
import { homedir } from 'node:os'

/** A length of time: `0.4 s`, `12 s`, `3m 05s`, `2h 13m`, `4d 2h`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 60) return `${whole} s`
  const pad = (value: number) => String(value).padStart(2, '0')
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${pad(whole % 60)}s`
  const minutes = Math.floor(whole / 60)
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)}h ${pad(minutes % 60)}m`
  const hours = Math.floor(minutes / 60)
  return `${Math.floor(hours / 24)}d ${hours % 24}h`
}

/** `just now`, `5m ago`, `2h ago`, `3d ago`. */
export function ago(at: number, now: number): string {
  const seconds = Math.floor((now - at) / 1000)
  if (seconds < 10) return 'just now'
  if (seconds < 60) return `${seconds}s ago`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ago`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ago`
  return `${Math.floor(seconds / 86_400)}d ago`
}

/** Bytes in MiB: `84.2 MiB`; `-` where it is not known. */
export function mebibytes(bytes: number | null): string {
  return bytes === null ? '-' : `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}

/** Bytes in the unit that fits: `512 B`, `12.3 KiB`, `4.0 MiB`. */
export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`
  return mebibytes(bytes)
}

/** A path with the home folder as `~`. */
export function shortPath(path: string, home = homedir()): string {
  return home !== '/' && path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path
}

/** `1 room`, `3 rooms`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
