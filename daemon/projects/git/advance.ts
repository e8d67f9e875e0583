/**
 * Taking over a few new commits from a working copy of this machine without a fetch: git lists the new objects, and they are copied
 * file by file. A fetch starts half a dozen processes for the same, and a claim waits for it.
 *
 * Nothing of the working copy's configuration is read: git looks through the cache, with the other's objects beside its own. Each
 * object is checked against its name before it is taken. Whatever is not plain (packed, shallow, borrowed or too many objects) is left
 * to a fetch. References are written last, so that what was cut off is as if it had not begun.
 */
import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { RoomdError } from '../../../protocol/errors.ts'
import type { Git } from './git.ts'

/** More than this is a fetch's work. */
const MOST_OBJECTS = 500
const MOST_BYTES = 16 * 1024 * 1024

/** What a cache was advanced by. */
export interface Advance {
  readonly from: string
  readonly to: string
  /** Names of the objects that are new; each is a file of its own in the cache. */
  readonly objects: readonly string[]
  /** Paths that differ between the two commits. */
  readonly paths: readonly string[]
}

export interface AdvanceRequest {
  readonly git: Git
  /** The cache's folder. */
  readonly cache: string
  /** Where the working copy keeps its objects and branches. */
  readonly common: string
  readonly from: string
  readonly to: string
  readonly signal?: AbortSignal | undefined
}

/** Brings the objects of `to` into the cache. null: a fetch must do it. Rejects only when it is called off. */
export async function takeObjects(request: AdvanceRequest): Promise<Advance | null> {
  const { git, cache, common, from, to, signal } = request
  if (!plain(common) || !plain(cache)) return null
  const options = {
    cwd: cache,
    what: 'the new commits could not be listed',
    signal,
    env: {
      GIT_DIR: cache,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: join(common, 'objects'),
      GIT_NO_REPLACE_OBJECTS: '1',
    },
  }
  try {
    const [listed, differ] = await Promise.all([
      git.run(['rev-list', '--objects', to, '--not', from], options),
      git.run(['diff-tree', '-r', '-z', '--name-only', '--no-renames', from, to], options),
    ])
    const objects = listed
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(' ', 1)[0] ?? '')
    if (!objects.includes(to) || objects.length > MOST_OBJECTS) return null
    if (!(await copyObjects(objects, join(common, 'objects'), join(cache, 'objects')))) return null
    return { from, to, objects, paths: differ.split('\0').filter((path) => path !== '') }
  } catch (error) {
    signal?.throwIfAborted()
    if (!(error instanceof RoomdError)) throw error
    // What git cannot read so, a fetch reads, or says why not.
    return null
  }
}

/** Into a clone of the cache, where both lie on one file system as links. */
export async function giveObjects({ objects }: Advance, cache: string, gitDir: string): Promise<void> {
  for (const name of objects) {
    const target = looseFile(join(gitDir, 'objects'), name)
    if (existsSync(target)) continue
    const from = looseFile(join(cache, 'objects'), name)
    await mkdir(dirname(target), { recursive: true })
    await link(from, target).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return
      const making = join(gitDir, 'objects', `tmp_obj_${randomUUID()}`)
      await copyFile(from, making)
      await rename(making, target)
    })
  }
}

/** Points a reference there. Throws when git holds it, or when another reference is in its way. */
export async function writeRef(gitDir: string, ref: string, commit: string): Promise<void> {
  const file = join(gitDir, ref)
  await mkdir(dirname(file), { recursive: true })
  await writeFile(`${file}.lock`, `${commit}\n`, { flag: 'wx' })
  try {
    await rename(`${file}.lock`, file)
  } catch (error) {
    await rm(`${file}.lock`, { force: true })
    throw error
  }
}

/** All of its history and objects are its own. */
function plain(gitDir: string): boolean {
  return !existsSync(join(gitDir, 'shallow')) && !existsSync(join(gitDir, 'objects', 'info', 'alternates'))
}

async function copyObjects(names: readonly string[], from: string, to: string): Promise<boolean> {
  let bytes = 0
  for (const name of names) {
    const target = looseFile(to, name)
    if (existsSync(target)) continue
    const content = await readFile(looseFile(from, name)).catch(() => null) // in a pack: not here
    if (content === null) return false
    bytes += content.length
    if (bytes > MOST_BYTES || !(await hasName(content, name))) return false
    await mkdir(dirname(target), { recursive: true })
    const making = join(to, `tmp_obj_${randomUUID()}`)
    await writeFile(making, content, { mode: 0o444 })
    await rename(making, target)
  }
  return true
}

/** Loaded with the first object that is unpacked. */
const unpack = (bytes: Uint8Array, options: { maxOutputLength: number }): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const { inflate } = process.getBuiltinModule('node:zlib')
    inflate(bytes, options, (error, plain) => (error ? reject(error) : resolve(plain)))
  })

async function hasName(content: Buffer, name: string): Promise<boolean> {
  try {
    const plainText = await unpack(content, { maxOutputLength: 8 * MOST_BYTES })
    const algorithm = name.length === 64 ? 'sha256' : 'sha1'
    return createHash(algorithm).update(plainText).digest('hex') === name
  } catch {
    // Damaged, or too large: a fetch says so, or takes it.
    return false
  }
}

function looseFile(objects: string, name: string): string {
  return join(objects, name.slice(0, 2), name.slice(2))
}
