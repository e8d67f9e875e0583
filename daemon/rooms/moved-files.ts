/** Where a file went that was renamed or moved: found by its inode and its content, in the folders nearby and those watched. */
import type { Dirent } from 'node:fs'
import { readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import type { FileIdentity } from '../documents/file-witness.ts'
import { readSource } from '../documents/save.ts'

/** Files that are looked at, at most: a folder with more is not searched to the end. */
const MOST_FILES = 5_000

/**
 * The canonical path of the file with this identity and content, or null when it cannot be told. Both are asked for: an inode is
 * given to the next file when its file is deleted.
 */
export async function findMoved(
  from: string,
  identity: FileIdentity,
  hash: string,
  watched: readonly string[],
): Promise<string | null> {
  const home = dirname(from)
  const along = await withItsFolder(from, identity, hash)
  if (along !== null) return along
  const near = new Set([home, ...watched, dirname(home)])
  let left = MOST_FILES
  for (const entry of await list(home)) if (entry.isDirectory()) near.add(join(home, entry.name))
  for (const folder of near) {
    for (const entry of await list(folder)) {
      if (!entry.isFile() || !entry.name.endsWith('.ipynb')) continue
      if (left-- <= 0) return null
      const path = join(folder, entry.name)
      if (path === from) continue
      const found = await theSame(path, identity, hash)
      if (found !== null) return found
    }
  }
  return null
}

/** A folder above it was renamed: it has its old place under one that stands beside where that was. */
async function withItsFolder(from: string, identity: FileIdentity, hash: string): Promise<string | null> {
  let gone = dirname(from)
  if (await isThere(gone)) return null
  while (!(await isThere(dirname(gone)))) gone = dirname(gone)
  const beside = (await list(dirname(gone))).filter((entry) => entry.isDirectory())
  for (const { name } of beside.slice(0, MOST_FILES)) {
    const found = await theSame(join(dirname(gone), name, relative(gone, from)), identity, hash)
    if (found !== null) return found
  }
  return null
}

/** The canonical path, if this is the file. */
async function theSame(path: string, { ino, dev }: FileIdentity, hash: string): Promise<string | null> {
  const found = await stat(path).catch(() => null) // gone again
  if (found?.ino !== ino || found.dev !== dev) return null
  const source = await readSource(path).catch(() => null)
  return source?.hash === hash ? realpath(path).catch(() => null) : null
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null
}

async function list(folder: string): Promise<Dirent[]> {
  // A folder that is gone or closed to us holds nothing that could be followed.
  return readdir(folder, { withFileTypes: true }).catch(() => [])
}
