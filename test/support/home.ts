/**
 * A home for one test: a temporary ROOMD_HOME and the environment that points to it. Disposing it ends every process that
 * carries it (daemon, hosts, kernels, clients) and removes the folder.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configFile } from '../../protocol/config.ts'
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

/** What a test's daemon is set to: no kernel is started ahead of need, so that processes can be counted and tests of others cost nothing. */
const SETTINGS = { pool: { generic: false } }

/** `settings`: the home's `config.json`; null: none, so that all is as it is for users. */
export function createHome(
  variables: Record<string, string> = {},
  settings: Record<string, unknown> | null = SETTINGS,
): TestHome {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-test-')))
  const work = join(path, 'work')
  mkdirSync(work)
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)))
  // Not the developer's shell: its profile may take its time, and a test that ends kills it half way, which not every profile survives.
  const env = { ...inherited, SHELL: '/bin/sh', ROOMD_HOME: path, ROOMD_NO_AUTOSTART: '1', ...variables }
  const places = resolvePlaces(env)
  if (settings !== null) {
    mkdirSync(places.config, { recursive: true, mode: 0o700 })
    writeFileSync(configFile(places), JSON.stringify(settings))
  }
  return {
    path,
    work,
    env,
    places,
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
  settings: Record<string, unknown> | null = SETTINGS,
): Promise<T> {
  const home = createHome(variables, settings)
  try {
    return await use(home)
  } finally {
    await home.dispose()
  }
}
