/**
 * Makes the kernel that comes with roomd one that Jupyter finds, and takes it away again. A kernelspec of the same name that is not
 * ours is never touched.
 */

import { mkdirSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { RoomdError } from '../../../protocol/errors.ts'
import { isOurKernelspec, JAVASCRIPT, javascriptKernelspec } from '../../../protocol/javascript-kernelspec.ts'
import { programFile } from '../../../protocol/programs.ts'
import { readIfThere, replaceFile } from '../../../protocol/small-files.ts'

export interface Installed {
  readonly name: string
  /** The kernel.json. */
  readonly path: string
  readonly content: string
  readonly changed: boolean
}

/** Throws `conflict` when another kernelspec has the name. `print`: writes nothing. */
export function installKernelspec(folder: string, options: { print: boolean }): Installed {
  const path = join(folder, JAVASCRIPT, 'kernel.json')
  const spec = javascriptKernelspec(process.execPath, programFile('javascript-kernel'))
  const content = `${JSON.stringify(spec, null, 2)}\n`
  const before = readIfThere(path)
  if (before !== null) mustBeOurs(path, before)
  const changed = before !== content
  if (changed && !options.print) {
    mkdirSync(join(folder, JAVASCRIPT), { recursive: true })
    // Jupyter may be reading: it sees the old one or the new one.
    replaceFile(path, content, { outlives: 'machine', mode: 0o666 })
  }
  return { name: JAVASCRIPT, path, content, changed }
}

/** Throws `kernel_not_found` when there is none, `conflict` when it is not ours. */
export function uninstallKernelspec(folder: string): { name: string; path: string } {
  const path = join(folder, JAVASCRIPT, 'kernel.json')
  const before = readIfThere(path)
  if (before === null)
    throw new RoomdError(
      'kernel_not_found',
      `there is no ${path}; "roomd kernels" shows where kernelspecs were found. --prefix and --sys-prefix name other places`,
    )
  mustBeOurs(path, before)
  rmSync(path)
  try {
    rmdirSync(join(folder, JAVASCRIPT))
  } catch (error) {
    // Somebody keeps files of their own beside it (a logo): theirs.
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error
  }
  return { name: JAVASCRIPT, path }
}

function mustBeOurs(path: string, text: string): void {
  let spec: unknown
  try {
    spec = JSON.parse(text)
  } catch {
    spec = null
  }
  if (isOurKernelspec(spec)) return
  throw new RoomdError(
    'conflict',
    `${path} belongs to another JavaScript kernel; nothing was changed. Remove it first, or use --prefix with another place`,
  )
}
