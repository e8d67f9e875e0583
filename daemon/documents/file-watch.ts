/**
 * Watches files through their folders, so that files that are replaced (as editors save) stay watched. Tells only that something
 * may have happened: what did is judged by the content.
 *
 * Where a folder cannot be watched (network file systems, no watches left) and as a net under the system's events, each file's
 * size, time and inode are looked at every POLL_MS.
 */
import { type FSWatcher, statSync, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import type { Clock } from '../../protocol/clock.ts'

export const POLL_MS = 5_000

interface Watched {
  readonly path: string
  readonly name: string
  readonly changed: () => void
  /** Size, time and inode when last looked at; null: no file; undefined: not yet. */
  seen: string | null | undefined
}

interface Folder {
  watcher: FSWatcher | null
  /** Which folder that listens to: another may come to stand at its path. */
  listensTo: string | null
  readonly files: Set<Watched>
  cancelPoll: () => void
}

export class FileWatch {
  readonly #clock: Clock
  readonly #folders = new Map<string, Folder>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Folders with watched files: where a file that is gone may have been moved to. */
  folders(): string[] {
    return [...this.#folders.keys()]
  }

  /** `path`: canonical. The returned function ends it; idempotent. */
  watch(path: string, changed: () => void): () => void {
    const at = dirname(path)
    const folder = this.#folders.get(at) ?? this.#open(at)
    const file: Watched = { path, name: basename(path), changed, seen: undefined }
    folder.files.add(file)
    signatureOf(path).then((seen) => {
      if (file.seen === undefined) file.seen = seen
    })
    return () => {
      if (!folder.files.delete(file) || folder.files.size > 0) return
      folder.cancelPoll()
      folder.watcher?.close()
      this.#folders.delete(at)
    }
  }

  /** Whether the system tells at once what happens to a file that is watched. */
  listensTo(path: string): boolean {
    return (this.#folders.get(dirname(path))?.watcher ?? null) !== null
  }

  dispose(): void {
    for (const folder of this.#folders.values()) {
      folder.cancelPoll()
      folder.watcher?.close()
    }
    this.#folders.clear()
  }

  #open(at: string): Folder {
    const folder: Folder = { watcher: null, listensTo: null, files: new Set(), cancelPoll: () => {} }
    this.#folders.set(at, folder)
    this.#listen(at, folder)
    this.#poll(at, folder)
    return folder
  }

  #listen(at: string, folder: Folder): void {
    folder.watcher?.close()
    folder.watcher = null
    try {
      folder.listensTo = folderAt(at)
      const watcher = watch(at, { persistent: false }, (_type, name) => {
        for (const file of folder.files) if (name === null || name === file.name) file.changed()
      })
      watcher.on('error', () => {
        // The folder is gone or its file system went away: looking now and then remains.
        watcher.close()
        if (folder.watcher === watcher) folder.watcher = null
      })
      folder.watcher = watcher
    } catch {
      // The same; the next look tries to listen again.
    }
  }

  #poll(at: string, folder: Folder): void {
    folder.cancelPoll = this.#clock.after(POLL_MS, async () => {
      for (const file of [...folder.files]) {
        const seen = await signatureOf(file.path)
        if (seen === file.seen || !folder.files.has(file)) continue
        file.seen = seen
        file.changed()
      }
      if (this.#folders.get(at) !== folder) return
      if (folder.watcher === null || folderAt(at) !== folder.listensTo) this.#listen(at, folder)
      this.#poll(at, folder)
    })
  }
}

/** null: none. */
function folderAt(path: string): string | null {
  const found = statSync(path, { throwIfNoEntry: false })
  return found ? `${found.dev}:${found.ino}` : null
}

async function signatureOf(path: string): Promise<string | null> {
  try {
    const { ino, size, mtimeMs, ctimeMs } = await stat(path)
    return `${ino}:${size}:${mtimeMs}:${ctimeMs}`
  } catch {
    // No file, or none that can be looked at: a change from or to that is one.
    return null
  }
}
