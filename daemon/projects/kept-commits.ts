/**
 * Commits that somebody made in a workspace that goes, as bundles that git fetches from: on whatever branch, on none, or stashed; those of
 * submodules beside them, since a commit that names one of theirs is worth nothing without it. A bundle builds on what the room started from.
 */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { ProjectsContext } from './context.ts'
import { indexEntries } from './git/index-entries.ts'
import { BUNDLE } from './kept-files.ts'
import type { Workspace } from './workspace-rows.ts'

type Ask = (
  args: readonly string[],
  answers?: readonly number[],
) => Promise<{ code: number | null; stdout: string }>

/**
 * Puts them under `kept`, by the path of their repository in the workspace. Where the room started from uncommitted changes, which are
 * in no other repository, they go along. false: there are none.
 */
export async function keepCommits(
  context: ProjectsContext,
  { folder, base, detail }: Workspace,
  kept: string,
): Promise<boolean> {
  if (base === null || !existsSync(join(folder, '.git'))) return false
  const beneath = detail.settings.include_uncommitted ? `${base}^@` : base
  return keepOf(context, folder, beneath, base, kept)
}

/** Whether nobody has committed in the workspace or its submodules, or taken files away, since it was made. */
export async function isAsGiven(
  context: ProjectsContext,
  { folder, base, branch }: Workspace,
): Promise<boolean> {
  if (base === null || branch === null || !(await headIsAt(folder, branch, base))) return false
  const changes = await context.git.run(
    ['diff-index', '--raw', '-z', '--ignore-submodules=dirty', base, '--'],
    {
      cwd: folder,
      what: 'the workspace could not be looked at',
    },
  )
  return !changes.split('\0').some((entry) => /^:(?:160000 |\d+ 160000 |[^:]* D$)/.test(entry))
}

/** On its branch, which is where it began, with no other branch and no stash beside it: told without git, which may be at work there. */
export async function headIsAt(folder: string, branch: string, base: string): Promise<boolean> {
  const git = join(folder, '.git')
  const text = async (name: string): Promise<string> =>
    (await readFile(join(git, name), 'utf8').catch(() => '')).trim() // packed, or away: not plain
  const [head, tip] = await Promise.all([text('HEAD'), text(join('refs', 'heads', branch))])
  if (head !== `ref: refs/heads/${branch}` || tip !== base || existsSync(join(git, 'refs', 'stash')))
    return false
  const heads = await readdir(join(git, 'refs', 'heads'), { recursive: true, withFileTypes: true })
  return heads.filter((entry) => entry.isFile()).length === 1
}

async function keepOf(
  context: ProjectsContext,
  folder: string,
  beneath: string,
  base: string,
  kept: string,
): Promise<boolean> {
  const ask: Ask = (args, answers = []) =>
    context.git.end(args, { cwd: folder, what: `the commits in ${folder} could not be kept`, answers })
  const bundled = await bundle(ask, beneath, kept)
  let more = false
  for (const [path, object] of await submodules(context, ask, folder, base)) {
    const at = join(folder, path)
    if (!existsSync(join(at, '.git'))) continue
    if (await keepOf(context, at, object, object, join(kept, path))) more = true
  }
  return bundled || more
}

async function bundle(ask: Ask, beneath: string, kept: string): Promise<boolean> {
  const known = async (name: string): Promise<boolean> =>
    (await ask(['rev-parse', '--verify', '--quiet', name], [1, 128])).code === 0
  const tips = ['--branches']
  // A branch that was begun without a commit has none.
  if (await known('HEAD^{commit}')) tips.push('HEAD')
  tips.push(...(await stashes(ask, known)))
  const without = ['--not', '--remotes']
  if (beneath.endsWith('^@') || (await known(`${beneath}^{commit}`))) without.push(beneath)
  if (Number((await ask(['rev-list', '--count', ...tips, ...without])).stdout) === 0) return false
  await mkdir(kept, { recursive: true, mode: 0o700 })
  const file = join(kept, BUNDLE)
  await ask(['bundle', 'create', '--quiet', `${file}.new`, ...tips, ...without])
  await rename(`${file}.new`, file)
  return true
}

/** The newest has a name; those beneath it are only in its log, and get one each. */
async function stashes(ask: Ask, known: (name: string) => Promise<boolean>): Promise<string[]> {
  if (!(await known('refs/stash'))) return []
  const { stdout } = await ask(['rev-list', '--walk-reflogs', 'refs/stash'])
  const [, ...older] = stdout.split('\n').filter((line) => line !== '')
  const names = ['refs/stash']
  for (const [index, commit] of older.entries()) {
    const name = `refs/roomd/stash/${index + 1}`
    await ask(['update-ref', name, commit])
    names.push(name)
  }
  return names
}

/** Paths of submodules that the repository began with or has now; what each was at when it began, else now. */
async function submodules(
  context: ProjectsContext,
  ask: Ask,
  folder: string,
  base: string,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  const what = `the commits in ${folder} could not be kept`
  for (const { mode, object, path } of await indexEntries(context.git, { cwd: folder, what }))
    if (mode === '160000') found.set(path, object)
  const { stdout } = await ask(['ls-tree', '-r', '-z', '--full-tree', base], [128])
  for (const line of stdout.split('\0')) {
    const [, object, path] = /^160000 commit ([0-9a-f]+)\t([\s\S]+)$/.exec(line) ?? []
    if (object && path) found.set(path, object)
  }
  return found
}
