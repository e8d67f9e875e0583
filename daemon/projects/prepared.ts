/**
 * The moment in which we were done with a workspace: what is not older is a user's. The file system's own clock tells it (change times,
 * which nobody can set), and it goes in ticks of some milliseconds: the mark is set in a tick in which we have written nothing else, so
 * that a file of the mark's very tick is a user's too.
 *
 * A workspace that somebody has is prepared again when it is moved or set up. What he put there before that, or meanwhile, would be
 * older than the new mark: it is written down by name before the mark is moved. The mark itself is never away in between.
 */
import { mkdir, readFile, rename, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ownFolder } from './git/workspace.ts'

/** The coarsest clock of a file system (FAT) goes in steps of two seconds. */
const LONGEST_TICK_MS = 2_100

/** Change time in nanoseconds from which on files are a user's; null: the workspace was never finished. */
export async function preparedAt(workspace: string): Promise<bigint | null> {
  return (await stat(markOf(workspace), { bigint: true }).catch(() => null))?.ctimeNs ?? null
}

/** From here on, files that are not older are the user's; and those at `theirs`, relative to the workspace. */
export async function markPrepared(workspace: string, theirs: readonly string[] = []): Promise<void> {
  const mark = markOf(workspace)
  await mkdir(dirname(mark), { recursive: true, mode: 0o700 })
  if (theirs.length > 0) {
    const list = listOf(workspace)
    const all = new Set([...(await readTheirs(workspace)), ...theirs])
    await writeFile(`${list}.new`, JSON.stringify([...all]), { flush: true })
    await rename(`${list}.new`, list)
  }
  // Another file, so that a mark that is set too early never counts.
  const probe = `${mark}.tick`
  await writeFile(probe, '')
  const { ctimeNs: ours } = await stat(probe, { bigint: true })
  const end = performance.now() + LONGEST_TICK_MS
  while (performance.now() < end) {
    await touch(probe)
    if ((await stat(probe, { bigint: true })).ctimeNs > ours) break
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await writeFile(mark, '', { flag: 'a' })
  await touch(mark)
}

/** Paths that are a user's though they are older than the mark. */
export async function readTheirs(workspace: string): Promise<string[]> {
  const text = await readFile(listOf(workspace), 'utf8').catch(() => '[]') // nothing was written down
  return JSON.parse(text) as string[]
}

async function touch(file: string): Promise<void> {
  const now = new Date()
  await utimes(file, now, now)
}

function markOf(workspace: string): string {
  return join(ownFolder(workspace), 'prepared')
}

function listOf(workspace: string): string {
  return join(ownFolder(workspace), 'theirs.json')
}
