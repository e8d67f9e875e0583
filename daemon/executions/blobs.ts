/**
 * Blob files: values too big for rows, named by the SHA-256 of their bytes, in one folder.
 *
 * Invariants: a name is given out only when its bytes are on the disk (file and folder synced), so a row that names a blob never
 * outlives it; a file is written once, under a temporary name and renamed; bytes under a name never change. Hashing and writing
 * happen on the thread pool; syncs of the folder are shared by all who wait for one. Races: two puts of the same bytes are one flight;
 * `collect` never removes what was put since it began to look, because a put is noted as soon as the name is known; a put of what is
 * being removed at that moment waits for the removal and writes it again.
 */
import { createHash, randomUUID, webcrypto } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import { BlobHash } from '../../protocol/ids.ts'
import type { BlobRef } from '../../protocol/notebook.ts'

/** Hashing up to this many bytes is quicker here than on another thread. */
const HASH_HERE = 64 * 1024

export interface Blobs {
  /** Resolves when the bytes are durable. The caller must not change them meanwhile. Rejects storage_full, storage_failed. */
  put(bytes: Uint8Array): Promise<BlobRef>
  /** The bytes. Rejects `not_found`. */
  read(hash: BlobHash): Promise<Uint8Array>
  /** Absolute path of the file, for streaming; it may not exist. */
  file(hash: BlobHash): string
  /**
   * Removes files that `keep` does not name and that were last put before `before` (epoch ms). Pass a time well before the rows
   * behind `keep` were read: what is being stored right now has no row yet.
   */
  collect(keep: ReadonlySet<string>, before: number): Promise<{ removed: number; bytes: number }>
}

/** Opens (and makes, 0700) the folder of blob files. One object per folder and process. */
export function openBlobs(folder: string): Blobs {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return new BlobFolder(folder)
}

class BlobFolder implements Blobs {
  readonly #folder: string
  readonly #flights = new Map<string, Promise<void>>()
  /** Digest → when it was last put by this process; these are known to be durable once their flight has landed. */
  readonly #put = new Map<string, number>()
  /** Being removed right now. */
  readonly #removals = new Map<string, Promise<void>>()
  #runningSync: Promise<void> | null = null
  #nextSync: Promise<void> | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  file(hash: BlobHash): string {
    return join(this.#folder, hash)
  }

  async put(bytes: Uint8Array): Promise<BlobRef> {
    const hash = BlobHash.parse(await digest(bytes))
    const known = this.#put.has(hash)
    this.#put.set(hash, Date.now())
    let flight = this.#flights.get(hash)
    if (!flight) {
      if (known && existsSync(this.file(hash))) return { blob: hash, size: bytes.byteLength }
      flight = this.#store(hash, bytes, this.#removals.get(hash)).finally(() => this.#flights.delete(hash))
      this.#flights.set(hash, flight)
    }
    try {
      await flight
    } catch (thrown) {
      this.#put.delete(hash)
      throw toStorageError(this.file(hash), thrown)
    }
    return { blob: hash, size: bytes.byteLength }
  }

  async read(hash: BlobHash): Promise<Uint8Array> {
    try {
      return await readFile(this.file(hash))
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw toStorageError(this.file(hash), thrown)
      throw new RoomdError('not_found', `no blob ${hash}: it is not stored any more; run the cell again`)
    }
  }

  async collect(keep: ReadonlySet<string>, before: number): Promise<{ removed: number; bytes: number }> {
    let removed = 0
    let bytes = 0
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name)
      if (keep.has(name)) continue
      const found = await stat(path)
      // Nothing is awaited between this check and the note of the removal.
      if (found.mtimeMs >= before || (this.#put.get(name) ?? 0) >= before || this.#flights.has(name)) continue
      this.#put.delete(name)
      const removal = rm(path, { force: true }).finally(() => this.#removals.delete(name))
      // Who puts it meanwhile only waits; a failure is told here.
      this.#removals.set(
        name,
        removal.catch(() => {}),
      )
      await removal
      removed++
      bytes += found.size
    }
    for (const [hash, at] of this.#put) if (at < before) this.#put.delete(hash)
    return { removed, bytes }
  }

  async #store(hash: BlobHash, bytes: Uint8Array, removal: Promise<void> | undefined): Promise<void> {
    await removal
    const path = this.file(hash)
    const present = await stat(path).catch(() => null)
    if (present?.size !== bytes.byteLength) {
      const temporary = `${path}.${randomUUID()}.part`
      try {
        const file = await open(temporary, 'wx', 0o600)
        try {
          await file.writeFile(bytes)
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(temporary, path)
      } catch (thrown) {
        await rm(temporary, { force: true })
        throw thrown
      }
    }
    // Also when it was there: whoever wrote it may have been killed before this step.
    await this.#syncFolder()
  }

  /** A sync that begins after this call; those who come while one runs share the next. */
  #syncFolder(): Promise<void> {
    const next = this.#nextSync
    if (next) return next
    const after = this.#runningSync ?? Promise.resolve()
    const flight = after.then(() => {
      this.#nextSync = null
      this.#runningSync = flight.catch(() => {}) // its callers hear of it
      return sync(this.#folder)
    })
    this.#nextSync = flight
    return flight
  }
}

async function digest(bytes: Uint8Array): Promise<string> {
  if (bytes.byteLength <= HASH_HERE) return createHash('sha256').update(bytes).digest('hex')
  const own = bytes as Uint8Array<ArrayBuffer>
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', own)).toString('hex')
}

/** Folders cannot be synced on Windows; renames are durable there. */
async function sync(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function toStorageError(path: string, thrown: unknown): RoomdError {
  if (thrown instanceof RoomdError) return thrown
  const error = thrown as NodeJS.ErrnoException
  const full = error.code === 'ENOSPC' || error.code === 'EDQUOT'
  return new RoomdError(
    full ? 'storage_full' : 'storage_failed',
    full
      ? `an output could not be stored: the disk is full (${path}); free some space`
      : `an output could not be stored: ${error.message}; check ${path}`,
    { cause: { path, code: error.code } },
  )
}
