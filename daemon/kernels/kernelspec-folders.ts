/** Where kernelspecs are looked for: the order of `jupyter --paths` (jupyter_core, `jupyter_path`). */
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { Variables } from './environment.ts'

export interface SpecFolder {
  /** Holds one folder per kernelspec. */
  readonly path: string
  readonly source: 'JUPYTER_PATH' | 'user' | 'environment' | 'system'
}

/** First folder wins where two hold a spec of one name. `env` is what kernels get, not the daemon's own. */
export function specFolders(env: Variables, platform: NodeJS.Platform = process.platform): SpecFolder[] {
  const home = env.HOME || homedir()
  const fromPath = (env.JUPYTER_PATH ?? '')
    .split(delimiter)
    .filter((path) => path !== '')
    .map((path): SpecFolder => ({ path: join(path, 'kernels'), source: 'JUPYTER_PATH' }))
  const user: SpecFolder[] = [{ path: join(userData(env, home, platform), 'kernels'), source: 'user' }]
  // Where `pip install --user` puts them; the same folder as above for most.
  const pip = env.PYTHONUSERBASE || (platform === 'darwin' ? null : join(home, '.local'))
  if (pip !== null) user.push({ path: join(pip, 'share', 'jupyter', 'kernels'), source: 'user' })
  const environment = [env.VIRTUAL_ENV, env.CONDA_PREFIX]
    .filter((prefix) => prefix !== undefined && prefix !== '')
    .map(
      (prefix): SpecFolder => ({
        path: join(`${prefix}`, 'share', 'jupyter', 'kernels'),
        source: 'environment',
      }),
    )
  const system = systemData(env, platform).map(
    (path): SpecFolder => ({ path: join(path, 'kernels'), source: 'system' }),
  )
  const ipython: SpecFolder = {
    path: join(env.IPYTHONDIR || join(home, '.ipython'), 'kernels'),
    source: 'user',
  }
  const middle = prefersEnvironment(env) ? [...environment, ...user] : [...user, ...environment]
  const seen = new Set<string>()
  return [...fromPath, ...middle, ...system, ipython].filter(({ path }) => !seen.has(path) && seen.add(path))
}

/** jupyter_core 5: inside a virtual environment, or a conda environment that is not the base, it comes before the user's. */
function prefersEnvironment(env: Variables): boolean {
  const told = env.JUPYTER_PREFER_ENV_PATH
  if (told !== undefined) return !/^(?:no|n|false|off|0|0\.0)$/i.test(told)
  return Boolean(env.VIRTUAL_ENV) || Boolean(env.CONDA_PREFIX && env.CONDA_DEFAULT_ENV !== 'base')
}

function userData(env: Variables, home: string, platform: NodeJS.Platform): string {
  if (env.JUPYTER_DATA_DIR) return env.JUPYTER_DATA_DIR
  if (platform === 'darwin') return join(home, 'Library', 'Jupyter')
  if (platform === 'win32') return join(env.APPDATA || join(home, 'AppData', 'Roaming'), 'jupyter')
  return join(env.XDG_DATA_HOME || join(home, '.local', 'share'), 'jupyter')
}

function systemData(env: Variables, platform: NodeJS.Platform): string[] {
  if (platform === 'win32') return [join(env.PROGRAMDATA || 'C:\\ProgramData', 'jupyter')]
  return ['/usr/local/share/jupyter', '/usr/share/jupyter']
}
