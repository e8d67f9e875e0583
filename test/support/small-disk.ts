/** A file system of a few MiB of its own, to be filled by a test. */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, realpathSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

export interface SmallDisk {
  /** Absolute, symlinks resolved. */
  readonly path: string
  /** Takes all that is free. */
  fill(): void
  /** Gives back what `fill` took. */
  free(): void
}

/** Mounted until the test is over; null where that is not allowed (it needs Linux and root). */
export function smallDisk(megabytes: number): SmallDisk | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-disk-')))
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', path]).status !== 0) return null
  onTestFinished(() => {
    spawnSync('umount', ['-l', path])
    rmSync(path, { recursive: true, force: true })
  })
  const ballast = join(path, 'ballast')
  return {
    path,
    fill() {
      const file = openSync(ballast, 'w')
      for (const size of [65_536, 512]) {
        try {
          while (writeSync(file, Buffer.alloc(size)) > 0);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
        }
      }
      closeSync(file)
    },
    free: () => rmSync(ballast),
  }
}
