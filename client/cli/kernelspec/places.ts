/** Where Jupyter looks for kernelspecs, as far as they can be written to: `jupyter kernelspec install` has the same three choices. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { RoomdError } from '../../../protocol/errors.ts'

/** `user`: for this user; `prefix`: below any folder; `sys-prefix`: in the Python environment that is active. */
export type Where =
  | { readonly kind: 'user' }
  | { readonly kind: 'prefix'; readonly path: string }
  | { readonly kind: 'sys-prefix' }

type Env = Readonly<Record<string, string | undefined>>

/** The folder that holds one folder for each kernelspec. Throws `invalid_argument` for `sys-prefix` outside an environment. */
export function kernelspecFolder(where: Where, env: Env, cwd: string): string {
  switch (where.kind) {
    case 'user':
      return join(userData(env), 'kernels')
    case 'prefix':
      return join(resolve(cwd, where.path), 'share', 'jupyter', 'kernels')
    case 'sys-prefix': {
      const prefix = env.VIRTUAL_ENV || env.CONDA_PREFIX
      if (!prefix)
        throw new RoomdError(
          'invalid_argument',
          'no Python environment is active (neither VIRTUAL_ENV nor CONDA_PREFIX is set): activate one, or use --prefix',
        )
      return join(prefix, 'share', 'jupyter', 'kernels')
    }
  }
}

/** jupyter_core's `jupyter_data_dir`. */
function userData(env: Env): string {
  if (env.JUPYTER_DATA_DIR) return env.JUPYTER_DATA_DIR
  const home = env.HOME || homedir()
  if (process.platform === 'darwin') return join(home, 'Library', 'Jupyter')
  if (process.platform === 'win32') return join(env.APPDATA || join(home, 'AppData', 'Roaming'), 'jupyter')
  return join(env.XDG_DATA_HOME || join(home, '.local', 'share'), 'jupyter')
}
