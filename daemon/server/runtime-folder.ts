/**
 * Makes the folders of a home and checks them before anything in them is trusted: ours, not writable by others, and not reached
 * through a symlink that someone else could turn. Whoever can write in the runtime folder can put another socket in our place.
 *
 * A folder of ours that others may only look into is closed to 0700; one that others may write to is refused, because they may
 * have been in it already.
 */
import { chmodSync, lstatSync, mkdirSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import { type Environment, type Places, sharedRuntimeFolder } from '../../protocol/places.ts'

/** POSIX only; where there are no uids the platform's own folders are private already. */
const ownUid = process.getuid?.()

/** Creates and checks every folder that the daemon uses. Throws one RoomdError that names the folder, the fault and the cure. */
export function prepareFolders(places: Places, env: Environment = process.env): void {
  for (const folder of [places.runtime, places.state, places.data, places.logs, places.config]) {
    privateFolder(folder, { symlink: 'ours' })
  }
  const folder = dirname(places.socket)
  if (folder === places.runtime) return
  const shared = sharedRuntimeFolder(env)
  if (dirname(folder) === shared) {
    // In a folder that all users share nothing can be assumed, not even about a symlink of our own.
    if (env.XDG_RUNTIME_DIR) chosenFolder(shared)
    else privateFolder(shared, { symlink: 'never' })
    privateFolder(folder, { symlink: 'never' })
    return
  }
  chosenFolder(folder)
}

/** A folder that is roomd's alone: created 0700, or found ours and closed to 0700. */
function privateFolder(path: string, rule: { symlink: 'ours' | 'never' }): void {
  create(path)
  const stats = ownFolder(path, rule.symlink)
  if (ownUid === undefined) return
  if (stats.mode & 0o022) {
    refuse(
      path,
      `others can write to it (mode ${octal(stats)})`,
      `check what is in it, then: chmod 700 ${path}`,
    )
  }
  if (stats.mode & 0o077) chmodSync(path, 0o700)
}

/**
 * The folder of a socket path that the user chose (`ROOMD_SOCKET`, `XDG_RUNTIME_DIR`): not ours to change. Ours and closed to
 * other writers, or a folder like /tmp where the sticky bit keeps others from replacing our socket.
 */
function chosenFolder(path: string): void {
  create(path)
  const stats = statSync(path)
  if (!stats.isDirectory()) refuse(path, 'it is not a folder', 'choose another socket path')
  if (ownUid === undefined) return
  const sticky = (stats.mode & 0o1000) !== 0 && stats.uid === 0
  if (sticky) return
  ownFolder(path, 'ours')
  if (stats.mode & 0o022) {
    refuse(
      path,
      `others can write to it (mode ${octal(stats)})`,
      `chmod go-w ${path}, or choose another socket path`,
    )
  }
}

function create(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    // Something that is no folder is at the path: the check that follows says so.
    if (code === 'EEXIST') return
    refuse(
      path,
      `it cannot be created (${error instanceof Error ? error.message : String(error)})`,
      'create it, or set ROOMD_HOME',
    )
  }
}

function ownFolder(path: string, symlink: 'ours' | 'never'): Stats {
  const link = lstatSync(path)
  if (link.isSymbolicLink()) {
    if (symlink === 'never') refuse(path, 'it is a symbolic link', `remove it: rm ${path}`)
    if (ownUid !== undefined && link.uid !== ownUid) {
      refuse(
        path,
        `it is a symbolic link of another user (uid ${link.uid})`,
        'remove the link, or set ROOMD_HOME',
      )
    }
  }
  const stats = link.isSymbolicLink() ? follow(path) : link
  if (!stats.isDirectory()) refuse(path, 'it is not a folder', 'move it away')
  if (ownUid !== undefined && stats.uid !== ownUid) {
    refuse(
      path,
      `it belongs to another user (uid ${stats.uid})`,
      'remove it, or set ROOMD_HOME to a folder of your own',
    )
  }
  return stats
}

function follow(path: string): Stats {
  try {
    return statSync(path)
  } catch (error) {
    refuse(
      path,
      `its symbolic link leads nowhere (${error instanceof Error ? error.message : String(error)})`,
      `remove it: rm ${path}`,
    )
  }
}

function octal(stats: Stats): string {
  return (stats.mode & 0o7777).toString(8).padStart(4, '0')
}

function refuse(path: string, why: string, next: string): never {
  throw new RoomdError('forbidden', `will not use ${path}: ${why}; ${next}`, { cause: { path, reason: why } })
}
