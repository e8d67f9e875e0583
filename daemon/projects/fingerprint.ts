/**
 * What a standby was started from. Two claims of one project get the same process as long as none of it changed: interpreter,
 * kernelspec, environment, setup, preload, lock files, and the project's own files that preload has loaded. Anything else in the
 * repository may move without costing the standby.
 */
import { createHash } from 'node:crypto'
import { realpathSync, statSync } from 'node:fs'
import type { ProjectSettings } from './settings.ts'

/** Name of an input → what it was. Names are shown to people: "requirements.txt changed". */
export type Fingerprint = Readonly<Record<string, string>>

/** Files that say which packages an environment has. */
export const LOCK_FILES = [
  'requirements.txt',
  'requirements.lock',
  'requirements-dev.txt',
  'pyproject.toml',
  'setup.py',
  'setup.cfg',
  'poetry.lock',
  'uv.lock',
  'pdm.lock',
  'Pipfile',
  'Pipfile.lock',
  'environment.yml',
  'environment.yaml',
  'conda-lock.yml',
  'pixi.toml',
  'pixi.lock',
  '.python-version',
  'renv.lock',
  'DESCRIPTION',
  'Project.toml',
  'Manifest.toml',
  'package.json',
  'package-lock.json',
  'npm-shrinkwrap.json',
  'yarn.lock',
  'pnpm-lock.yaml',
  'bun.lock',
] as const

const LOCK_NAMES: ReadonlySet<string> = new Set(LOCK_FILES)

/** At the top or in any folder: a monorepo keeps them where the packages are. */
export function isLockFile(path: string): boolean {
  return LOCK_NAMES.has(path.split('/').at(-1) ?? '') || /(?:^|\/)requirements[^/]*\.(?:txt|in)$/.test(path)
}

export interface FingerprintInput {
  readonly settings: ProjectSettings
  /** As it will be started: absolute path; null for a kernel whose program is not known. */
  readonly interpreter: string | null
  readonly kernel: string
  readonly language: string
  /** Object names of files, by path. */
  readonly files: ReadonlyMap<string, string>
}

export function fingerprintOf({
  settings,
  interpreter,
  kernel,
  language,
  files,
}: FingerprintInput): Fingerprint {
  return {
    kernel: `${kernel} (${language})`,
    interpreter: interpreter === null ? '' : programMark(interpreter),
    setup: hash(settings.setup),
    preload: hash(settings.preload),
    environment: hash(Object.entries(settings.env).sort()),
    data: hash(settings.data),
    ...Object.fromEntries([...files].map(([path, object]) => [`file ${path}`, object])),
  }
}

/** Names of what differs. */
export function differences(before: Fingerprint, after: Fingerprint): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].filter((name) => before[name] !== after[name])
}

export function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 32)
}

/** An interpreter is another one when its file is: an upgrade in place changes size or time. */
export function programMark(path: string): string {
  try {
    const real = realpathSync(path)
    const { size, mtimeMs } = statSync(real)
    return `${real} ${size} ${mtimeMs}`
  } catch {
    // It is not there, or not ours to see: as good as another one.
    return `${path} (missing)`
  }
}
