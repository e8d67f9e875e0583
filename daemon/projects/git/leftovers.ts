/**
 * What a git, or a daemon, that was killed leaves in a repository of ours: locks, which keep every later git away for good, and the packs it
 * was receiving, which nothing would ever remove. Only for who knows that nobody is at work there.
 */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { GitError } from './errors.ts'

const LOCKS = ['HEAD', 'ORIG_HEAD', 'config', 'index', 'packed-refs', 'shallow'].map((name) => `${name}.lock`)

/** Runs `work` of git in a repository of ours, once more without locks if one kept it away. To do it twice must be as good as once. */
export async function pastLocks<T>(gitDir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isLocked(error)) throw error
    await removeLocks(gitDir)
    return await work()
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof GitError && /\.lock': File exists/.test(error.stderr)
}

async function removeLocks(gitDir: string): Promise<void> {
  const refs = join(gitDir, 'refs')
  const entries = await readdir(refs, { recursive: true, withFileTypes: true }).catch(() => []) // no repository
  const held = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.lock'))
  const files = [...LOCKS.map((name) => join(gitDir, name)), ...held.map((e) => join(e.parentPath, e.name))]
  await Promise.all(files.map((file) => rm(file, { force: true })))
}

/** Packs that never arrived whole. */
export async function removePartPacks(gitDir: string): Promise<void> {
  const packs = join(gitDir, 'objects', 'pack')
  const names = await readdir(packs).catch(() => []) // no repository
  const parts = names.filter((name) => /^(?:\.tmp-|tmp_)/.test(name))
  await Promise.all(parts.map((name) => rm(join(packs, name), { force: true })))
}
