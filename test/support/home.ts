/**
 * A home for one test: a temporary ROOMD_HOME and the environment that points to it. Disposing it ends every process that
 * carries it (daemon, hosts, kernels, clients) and removes the folder.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Places, resolvePlaces } from '../../protocol/places.ts'
import { endProcessesOf } from './processes.ts'

export interface TestHome {
  /** Absolute, symlinks resolved. */
  readonly path: string
  /** A folder for notebooks; inside the home, so that it goes with it. */
  readonly work: string
  readonly places: Places
  /** For child processes. Autostart is off unless the test allows it. */
  readonly env: NodeJS.ProcessEnv
  dispose(): Promise<void>
}

/** Variables of the developer's own shell that must not reach a test's processes. */
const foreign = /^(ROOMD_|VITEST|XDG_RUNTIME_DIR$|NODE_OPTIONS$|NO_COLOR$|FORCE_COLOR$)/

export function createHome(variables: Record<string, string> = {}): TestHome {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-test-')))
  const work = join(path, 'work')
  mkdirSync(work)
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)))
  // Not the developer's shell: its profile may take its time, and a test that ends kills it half way, which not every profile survives.
  const env = { ...inherited, SHELL: '/bin/sh', ROOMD_HOME: path, ROOMD_NO_AUTOSTART: '1', ...variables }
  return {
    path,
    work,
    env,
    places: resolvePlaces(env),
    async dispose() {
      await endProcessesOf(path)
      rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
    },
  }
}

/** Runs `use` in a home of its own and disposes it, whatever happens. */
export async function withHome<T>(
  use: (home: TestHome) => Promise<T>,
  variables: Record<string, string> = {},
): Promise<T> {
  const home = createHome(variables)
  try {
    return await use(home)
  } finally {
    await home.dispose()
  }
}
