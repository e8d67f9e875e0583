/**
 * Reading and replacing a file on disk. Writing is a temporary file in the same folder, synced, renamed over the old one, and
 * the folder synced: a crash leaves the old bytes or the new ones. The file that a symlink points to is replaced, not the link;
 * its mode stays. Whatever fails, no temporary file is left by a process that lives.
 *
 * Between the last look at the old bytes and the rename another program may still write; that moment cannot be closed with
 * POSIX means and is a few microseconds long.
 */
import { createHash, randomBytes } from 'node:crypto'
import { renameSync, statSync } from 'node:fs'
import { type FileHandle, open, readdir, readFile, realpath, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import { Breathing } from '../breathing.ts'
import { placeOf } from './file-place.ts'

export interface SaveRequest {
  /** Absolute path; symlinks are followed. */
  readonly path: string
  readonly bytes: Uint8Array
  /** Hash of the bytes as last read or written; null: there must be no file yet. */
  readonly expectedHash: string | null
  /** Mode of a new file; default 0o666 less the process's umask. */
  readonly mode?: number
}

export interface Saved {
  /** Canonical path of the file that was written. */
  readonly path: string
  readonly hash: string
}

/** SHA-256 of the bytes, lower-case hex. */
export function hashBytes(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Bytes that are hashed in one step: less than a millisecond. */
const HASH_STEP = 512 * 1024

/** The same in steps with turns of the loop in between: hashing 20 MB takes tens of milliseconds, and so does copying them for another thread. */
async function hashLarge(bytes: Uint8Array): Promise<string> {
  const hash = createHash('sha256')
  const breathing = new Breathing()
  for (let at = 0; at < bytes.length; at += HASH_STEP) {
    hash.update(bytes.subarray(at, at + HASH_STEP))
    if (breathing.due) await breathing.pause()
  }
  return hash.digest('hex')
}

/** Bytes and hash of a file. Rejects `not_found`, or `forbidden` and the like naming path and cause. */
export async function readSource(path: string): Promise<{ path: string; bytes: Uint8Array; hash: string }> {
  try {
    const real = await realpath(path)
    const bytes = await readFile(real)
    return { path: real, bytes, hash: await hashLarge(bytes) }
  } catch (thrown) {
    throw fileError(path, thrown, 'read')
  }
}

/** Steps of saving, in order; `created` and `written` are of the temporary file. */
export type SaveStep = 'created' | 'written' | 'synced' | 'renamed'

/**
 * Replaces the file. `reached` is called behind each step, for tests that end the process there. Rejects `source_conflict` when its bytes are not those of `expectedHash` (or it appeared or vanished
 * meanwhile), `storage_full`, `forbidden`, `not_found` (the folder is gone), `storage_failed`; the file is then as it was.
 */
export async function saveFile(
  request: SaveRequest,
  reached: (step: SaveStep) => void = () => {},
): Promise<Saved> {
  const target = await resolveTarget(request.path)
  await checkUnchanged(target, request)
  const folder = dirname(target)
  const temporary = join(folder, `${temporaryStart(target)}${randomBytes(6).toString('hex')}.tmp`)
  let renamed = false
  try {
    const mode = (await modeOf(target)) ?? request.mode ?? 0o666
    const handle = await open(temporary, 'wx', mode)
    try {
      reached('created')
      await handle.writeFile(request.bytes)
      reached('written')
      // `open` applies the umask; an existing file's mode is kept exactly.
      const kept = await keepOwner(handle, target)
      if (kept !== null) await handle.chmod(kept)
      await handle.sync()
    } finally {
      await handle.close()
    }
    reached('synced')
    await replaceUnchanged(temporary, target, request)
    renamed = true
    reached('renamed')
    await syncFolder(folder)
  } catch (thrown) {
    if (!renamed) await discard(temporary)
    throw fileError(target, thrown, 'written')
  }
  return { path: target, hash: await hashLarge(request.bytes) }
}

function temporaryStart(target: string): string {
  return `.${basename(target)}.`
}

/** Removes what saves of this file left behind whose process died. Nobody may be saving it meanwhile. `path`: canonical. */
export async function removeLeftovers(path: string): Promise<void> {
  const start = temporaryStart(path)
  const names = await readdir(dirname(path)).catch(() => []) // a folder that cannot be read has nothing that can be removed
  for (const name of names) {
    if (!name.startsWith(start) || !/^[0-9a-f]{12}\.tmp$/.test(name.slice(start.length))) continue
    await discard(join(dirname(path), name))
  }
}

/** The file behind a symlink, also when that file does not exist yet. */
async function resolveTarget(path: string): Promise<string> {
  try {
    return await placeOf(path)
  } catch (thrown) {
    throw fileError(path, thrown, 'written')
  }
}

/**
 * Compares the bytes once more and renames. Reading takes turns of the loop, in which others write; so the file is asked at once
 * before the rename, in the same turn, whether it is still the one that was read.
 */
async function replaceUnchanged(temporary: string, target: string, request: SaveRequest): Promise<void> {
  for (;;) {
    const read = versionOf(target)
    await checkUnchanged(target, request)
    if (versionOf(target) !== read) continue
    renameSync(temporary, target)
    return
  }
}

/** Names what stands at a path now, without reading it: another whenever it was written or replaced. */
function versionOf(path: string): string {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false })
  return found ? [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' ') : 'none'
}

async function checkUnchanged(target: string, request: SaveRequest): Promise<void> {
  let present: string | null
  try {
    present = await hashLarge(await readFile(target))
  } catch (thrown) {
    if (codeOf(thrown) !== 'ENOENT') throw fileError(target, thrown, 'read')
    present = null
  }
  if (present === request.expectedHash) return
  const cause = { path: target, expected: request.expectedHash, present }
  if (request.expectedHash === null)
    throw new RoomdError(
      'source_conflict',
      `${target} exists already and was not written over: save under another name, or open that file`,
      { cause },
    )
  throw new RoomdError(
    'source_conflict',
    present === null
      ? `${target} is gone: it was deleted or moved by another program; save again to write it anew, or save under another path`
      : `${target} was changed by another program since it was read, and was not written over: reconcile the source (keep room, disk or both)`,
    { cause, next: { tool: 'reconcile_source', arguments: { keep: 'both' } } },
  )
}

/** Permission bits of a file; null when there is none. */
async function modeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).mode & 0o7777
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return null
    throw thrown
  }
}

/**
 * Gives the new file the owner and group of the old one, as far as that is allowed: a file of somebody else that root saves stays his, one
 * in a shared folder stays its group's. Returns the old one's mode; null: there is none.
 */
async function keepOwner(handle: FileHandle, target: string): Promise<number | null> {
  const old = await stat(target).catch(() => null) // gone: the comparison before the rename says so
  if (old === null) return null
  const made = await handle.stat()
  if (made.uid !== old.uid || made.gid !== old.gid) {
    // Only root may give a file away; its group everybody in it may set.
    await handle.chown(old.uid, old.gid).catch(() => handle.chown(made.uid, old.gid).catch(() => {}))
  }
  return old.mode & 0o7777
}

async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open a folder; its renames are journaled by the file system.
  if (process.platform === 'win32') return
  let handle: FileHandle | null = null
  try {
    handle = await open(folder, 'r')
    await handle.sync()
  } finally {
    await handle?.close()
  }
}

async function discard(temporary: string): Promise<void> {
  try {
    await unlink(temporary)
  } catch {
    // It was never made, or the folder is gone; what failed before is what is told.
  }
}

function codeOf(thrown: unknown): string {
  return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : ''
}

export function fileError(path: string, thrown: unknown, done: 'read' | 'written'): unknown {
  if (thrown instanceof RoomdError) return thrown
  const code = codeOf(thrown)
  const cause = { path, code }
  const told = (what: string): string => `${path} could not be ${done}: ${what} (${code})`
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new RoomdError('storage_full', told('the disk is full; free some space and save again'), {
        cause,
      })
    case 'EACCES':
    case 'EPERM':
      return new RoomdError('forbidden', told('no permission; check the owner and mode of file and folder'), {
        cause,
      })
    case 'EROFS':
      return new RoomdError('forbidden', told('the file system is read-only; save under another path'), {
        cause,
      })
    case 'ENOENT':
    case 'ENOTDIR':
      return new RoomdError('not_found', told('no such file or folder; check the path'), { cause })
    case 'EISDIR':
      return new RoomdError('invalid_argument', told('it is a folder; give the path of a file'), { cause })
    default:
      return code === ''
        ? thrown
        : new RoomdError('storage_failed', told(thrown instanceof Error ? thrown.message : String(thrown)), {
            cause,
          })
  }
}
