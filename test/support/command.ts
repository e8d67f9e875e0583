/** Runs the built `roomd` command as a user would. */
import { type ChildProcess, spawn } from 'node:child_process'
import { programFile } from '../../protocol/programs.ts'
import type { TestHome } from './home.ts'

export interface CommandResult {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunningCommand {
  readonly child: ChildProcess
  readonly pid: number
  readonly result: Promise<CommandResult>
}

/** Starts `roomd ARGS` with no terminal; stdin is empty unless given. */
export function spawnRoomd(
  home: TestHome,
  args: readonly string[],
  options: { env?: Record<string, string>; cwd?: string; input?: string } = {},
): RunningCommand {
  const child = spawn(process.execPath, [programFile('roomd'), ...args], {
    env: { ...home.env, ...options.env },
    cwd: options.cwd ?? home.work,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const out: Buffer[] = []
  const err: Buffer[] = []
  child.stdout.on('data', (piece: Buffer) => out.push(piece))
  child.stderr.on('data', (piece: Buffer) => err.push(piece))
  // A command that does not read its stdin may end first.
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  const result = new Promise<CommandResult>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) =>
      resolve({
        code,
        signal,
        stdout: Buffer.concat(out).toString('utf8'),
        stderr: Buffer.concat(err).toString('utf8'),
      }),
    )
  })
  if (child.pid === undefined) throw new Error('roomd could not be started')
  return { child, pid: child.pid, result }
}

/** Runs `roomd ARGS` to its end. */
export function roomd(
  home: TestHome,
  args: readonly string[],
  options: { env?: Record<string, string>; cwd?: string; input?: string } = {},
): Promise<CommandResult> {
  return spawnRoomd(home, args, options).result
}
