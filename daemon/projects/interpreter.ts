/**
 * Which program a project's kernels run. Virtual environments are not in a clone, so an interpreter is always named by its absolute
 * path, in the user's own folder; it is never copied.
 */
import { existsSync, readdirSync } from 'node:fs'
import { isAbsolute, join, resolve } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { ProjectSettings } from './settings.ts'
import type { Source } from './source.ts'

/** null: the kernelspec's own. Throws `kernel_not_found` when what was named is not there. */
export function interpreterOf(source: Source, settings: ProjectSettings): string | null {
  const { interpreter, kernel } = settings
  if (interpreter === null)
    return kernel === null && source.kind === 'local' ? ownEnvironment(source.folder) : null
  if (!isAbsolute(interpreter) && source.kind === 'remote') {
    throw new RoomdError(
      'kernel_not_found',
      `the interpreter "${interpreter}" is relative, and a remote project has no folder; name it by its absolute path`,
    )
  }
  const path = source.kind === 'local' ? resolve(source.folder, interpreter) : interpreter
  if (existsSync(path)) return path
  throw new RoomdError(
    'kernel_not_found',
    `the project's interpreter ${path} is not there; make the environment, or name another (roomd project add --interpreter)`,
    { cause: { path } },
  )
}

/** The `.venv` or `venv` of the project's folder, if a notebook kernel is installed in it. */
function ownEnvironment(folder: string): string | null {
  for (const name of ['.venv', 'venv']) {
    const python = join(folder, name, 'bin', 'python')
    const libraries = join(folder, name, 'lib')
    if (!existsSync(python) || !existsSync(libraries)) continue
    const has = readdirSync(libraries).some((version) =>
      existsSync(join(libraries, version, 'site-packages', 'ipykernel')),
    )
    if (has) return python
  }
  return null
}
