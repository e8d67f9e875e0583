/**
 * Data that is not in git, put into a workspace read-only. Where the file system can share blocks, a file is cloned: writing to it is
 * refused, and were it done all the same, the original would not change. Elsewhere it is a symbolic link to the original. A folder is
 * made anew, closed for writing, with its files in it; a folder with very many files is one link. A link has no mode of its own, so a note says
 * that writing to it reaches the original.
 */
import { constants } from 'node:fs'
import { chmod, copyFile, lstat, mkdir, readdir, realpath, stat, symlink } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, normalize, relative } from 'node:path'
import { isWithin } from './folders.ts'
import { excludePaths } from './git/workspace.ts'
import type { ProjectSettings } from './settings.ts'
import type { Source } from './source.ts'

/** Beyond so many files a folder is one link. */
const MOST_FILES = 5_000

export interface DataPlace {
  readonly from: string
  /** Relative to the workspace. */
  readonly at: string
}

/**
 * Where each data path comes from and goes to; `notes` says what cannot be had. What the repository itself names must lie in the
 * project's folder, whatever links lead out of it; a person may name any place.
 */
export async function dataPlaces(
  source: Source,
  data: ProjectSettings['data'],
): Promise<{ places: DataPlace[]; notes: string[] }> {
  const places: DataPlace[] = []
  const notes: string[] = []
  for (const { path, own } of data) {
    const place = placeOf(source, path)
    if (place === null) {
      notes.push(`data ${path}: a remote project has no folder that it could be in; name an absolute path`)
      continue
    }
    const real = await realpath(place.from).catch(() => null)
    if (real === null) notes.push(`data ${path} is not there (${place.from})`)
    else if (!own && !(source.kind === 'local' && isWithin(source.folder, real)))
      notes.push(`data ${path} lies outside the project: roomd.json may only name what is in it`)
    else places.push({ from: real, at: place.at })
  }
  return { places, notes }
}

function placeOf(source: Source, path: string): DataPlace | null {
  if (isAbsolute(path)) {
    if (source.kind === 'local' && isWithin(source.folder, path))
      return { from: path, at: relative(source.folder, path) }
    return { from: path, at: basename(path) }
  }
  if (source.kind !== 'local') return null
  const at = normalize(path)
  if (at.startsWith('..')) return { from: join(source.folder, at), at: basename(at) }
  return { from: join(source.folder, at), at: at.replace(/[/\\]$/, '') }
}

/** Puts them there. What the checkout already has is left as it is. */
export async function linkData(workspace: string, places: readonly DataPlace[]): Promise<string[]> {
  const notes: string[] = []
  const linked: string[] = []
  for (const { from, at } of places) {
    const target = join(workspace, at)
    if (await lstat(target).catch(() => null)) continue
    // A folder of the checkout that is a link could lead the new one anywhere.
    await mkdir(dirname(target), { recursive: true })
    const real = await realpath(dirname(target))
    if (!isWithin(await realpath(workspace), real)) {
      notes.push(
        `data ${at} was left out: its folder in the repository is a link that leads out of the workspace`,
      )
      continue
    }
    if (await putInto(from, target))
      notes.push(
        `data ${at} is the original, by link (no blocks can be shared here): what is written to it changes ${from}`,
      )
    linked.push(at)
  }
  await excludePaths(workspace, linked)
  return notes
}

/** Returns whether something of it is a link to the original. */
async function putInto(from: string, target: string): Promise<boolean> {
  const info = await stat(from)
  if (!info.isDirectory()) return putFile(from, target)
  const entries = await readdir(from, { recursive: true, withFileTypes: true })
  if (entries.length > MOST_FILES) {
    await symlink(from, target, 'junction')
    return true
  }
  let links = false
  await mkdir(target)
  const folders = [target]
  for (const entry of entries) {
    const path = join(entry.parentPath, entry.name)
    const place = join(target, path.slice(from.length))
    if (entry.isDirectory()) {
      await mkdir(place)
      folders.push(place)
    } else if (await putFile(path, place)) links = true
  }
  // Innermost first: a closed folder takes no more files.
  for (const folder of folders.reverse()) await chmod(folder, 0o555)
  return links
}

/** The same of one file. */
async function putFile(from: string, target: string): Promise<boolean> {
  try {
    await copyFile(from, target, constants.COPYFILE_FICLONE_FORCE)
    await chmod(target, 0o444)
    return false
  } catch {
    // No shared blocks here (another file system, or one that cannot): the next best.
    await symlink(from, target)
    return true
  }
}
