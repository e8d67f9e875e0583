/**
 * Submodules of a workspace. Their addresses are the repository's own words, so an untrusted project gets none. For a local project the
 * copy that the user has checked out is taken, which needs no network; what cannot be had is said and left out.
 */
import { existsSync } from 'node:fs'
import { isAbsolute, join, normalize } from 'node:path'
import { RoomdError } from '../../../protocol/errors.ts'
import type { WorkspaceRequest } from './workspace.ts'

export async function fillSubmodules({
  git,
  source,
  folder,
  trusted,
  signal,
}: WorkspaceRequest): Promise<string[]> {
  if (!existsSync(join(folder, '.gitmodules'))) return []
  if (!trusted) return ['submodules are left out until the project is trusted']
  const end = await git.end(
    ['config', '--file', '.gitmodules', '--null', '--get-regexp', '^submodule\\..*\\.path$'],
    { cwd: folder, what: '.gitmodules could not be read', signal, answers: [1] },
  )
  const modules = end.stdout
    .split('\0')
    .map((entry) => /^submodule\.([\s\S]*)\.path\n([\s\S]*)$/.exec(entry))
    .flatMap((match) => (match?.[1] && match[2] ? [{ name: match[1], path: match[2] }] : []))
    .filter(({ path }) => !isAbsolute(path) && !normalize(path).startsWith('..'))
  const notes: string[] = []
  for (const { name, path } of modules) {
    const own = source.kind === 'local' ? join(source.folder, path) : null
    const address = own !== null && existsSync(join(own, '.git')) ? own : null
    try {
      await git.run(
        [
          ...(address === null
            ? []
            : ['-c', 'protocol.file.allow=always', '-c', `submodule.${name}.url=${address}`]),
          'submodule',
          '--quiet',
          'update',
          '--init',
          '--recursive',
          '--force',
          '--',
          path,
        ],
        {
          cwd: folder,
          what: `the submodule ${path} could not be fetched`,
          signal,
          transfer: address === null,
        },
      )
    } catch (error) {
      if (!(error instanceof RoomdError)) throw error
      notes.push(error.message)
    }
  }
  return notes
}
