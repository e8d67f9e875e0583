/**
 * The project's setup commands in a workspace. They are skipped when the stamp of the last run that worked matches exactly: same
 * commit, same fingerprint, same commands. A stamp is written only after the last command ended well, and removed before the first
 * one starts: what was cut off is run again.
 */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { Variables } from '../kernels/environment.ts'
import type { Deputies } from './deputies.ts'
import { type Fingerprint, hash } from './fingerprint.ts'
import { lastLines } from './git/errors.ts'
import { ownFolder } from './git/workspace.ts'

/** The longest that one command may take. */
export const SETUP_LIMIT_MS = 15 * 60_000

export interface SetupRequest {
  readonly deputies: Deputies
  readonly workspace: string
  readonly commit: string
  readonly fingerprint: Fingerprint
  readonly commands: readonly string[]
  readonly environment: Variables
  readonly signal?: AbortSignal | undefined
}

/** Returns what was done. Throws `kernel_start_failed` naming the command, how it ended and its last lines. */
export async function runSetup(request: SetupRequest): Promise<'none' | 'skipped' | 'ran'> {
  const { deputies, workspace, commands, environment, signal } = request
  if (commands.length === 0) return 'none'
  const stamp = hash([request.commit, request.fingerprint, commands])
  const file = stampFile(workspace)
  if ((await readFile(file, 'utf8').catch(() => null)) === stamp) return 'skipped'
  await clearStamp(workspace)
  const shell = process.platform === 'win32' ? ['cmd.exe', '/d', '/s', '/c'] : ['/bin/sh', '-c']
  const [program = '', ...before] = shell
  for (const command of commands) {
    const end = await deputies.run(program, [...before, command], {
      cwd: workspace,
      env: environment,
      limitMs: SETUP_LIMIT_MS,
      signal,
    })
    if (end.code === 0) continue
    const how =
      end.failure !== null
        ? `could not be started: ${end.failure.message}`
        : end.ended === 'too_long'
          ? `took longer than ${SETUP_LIMIT_MS / 60_000} min and was ended`
          : end.ended === 'too_much_output'
            ? 'printed without end and was ended'
            : end.signal
              ? `was ended by ${end.signal}`
              : `ended with exit code ${end.code}`
    const said = lastLines(`${end.stdout.slice(-8192)}\n${end.stderr}`)
    throw new RoomdError(
      'kernel_start_failed',
      `the setup command "${command}" ${how}${said ? `; its last lines:\n${said}` : ' and printed nothing'}`,
      { cause: { command, code: end.code, signal: end.signal } },
    )
  }
  await mkdir(ownFolder(workspace), { recursive: true, mode: 0o700 })
  await writeFile(`${file}.new`, stamp, { flush: true })
  await rename(`${file}.new`, file)
  return 'ran'
}

/** The next start sets the workspace up again. */
export async function clearStamp(workspace: string): Promise<void> {
  await rm(stampFile(workspace), { force: true })
}

export function stampFile(workspace: string): string {
  return join(ownFolder(workspace), 'setup')
}
