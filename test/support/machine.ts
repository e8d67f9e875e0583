/**
 * What this machine has for tests that need more than Node, and the one way to say that it is missing: a skip with a note,
 * which the reporter names at the end ("not run here: no Python kernel"). In CI everything is installed; there a missing
 * thing is an error, so that nothing is skipped silently.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { TestContext } from 'vitest'

const python = '/usr/bin/python3'

const checks = {
  'Python kernel': () => imports('ipykernel'),
  'R kernel': () => spawnSync('R', ['--slave', '-e', 'library(IRkernel)'], { stdio: 'ignore' }).status === 0,
  jupyter_kernel_test: () => imports('jupyter_kernel_test'),
  'Python nbformat': () => imports('nbformat'),
  jupyter_client: () => imports('jupyter_client'),
  'Jupyter Server': () => imports('jupyter_server'),
  openssl: () => spawnSync('openssl', ['version'], { stdio: 'ignore' }).status === 0,
  'git-lfs': () => spawnSync('git', ['lfs', 'version'], { stdio: 'ignore' }).status === 0,
  Chromium: () => ['/usr/bin/chromium', '/usr/bin/chromium-browser'].some((path) => existsSync(path)),
} as const

export type MachinePart = keyof typeof checks

/** The Python that Debian's packages belong to. */
export const pythonFile = python

const known = new Map<MachinePart, boolean>()

/** Whether the machine has it; looked at once per test process. */
export function has(part: MachinePart): boolean {
  const before = known.get(part)
  if (before !== undefined) return before
  const found = checks[part]()
  known.set(part, found)
  return found
}

/** At the top of a test, or in `beforeEach`: skips it, saying why, where the machine lacks a part. */
export function needs(context: TestContext, ...parts: MachinePart[]): void {
  const missing = parts.filter((part) => !has(part))
  if (missing.length === 0) return
  const note = missing.map((part) => `no ${part}`).join(', ')
  if (process.env.ROOMD_TEST_NEEDS_ALL) throw new Error(`${note}, and ROOMD_TEST_NEEDS_ALL is set`)
  context.skip(note)
}

function imports(module: string): boolean {
  return existsSync(python) && spawnSync(python, ['-c', `import ${module}`], { stdio: 'ignore' }).status === 0
}
