/**
 * The environment that kernels get: the user's login shell's. A daemon that a login service started has none of what conda, uv,
 * pyenv or the user's profile set, so the shell is asked once, with a time limit; when it fails, the daemon's own is used and
 * the log says so.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { userInfo } from 'node:os'

export type Variables = Readonly<Record<string, string>>

/** How long a profile may take. */
const TIMEOUT_MS = 10_000
const MAX_BYTES = 4 * 1024 * 1024

/** What belongs to the daemon or to the asking shell itself, never to a kernel. */
const NOT_FOR_KERNELS =
  /^(?:ROOMD_(?!HOME$|SOCKET$).*|JPY_PARENT_PID|_|SHLVL|PWD|OLDPWD|INVOCATION_ID|JOURNAL_STREAM|LISTEN_(?:PID|FDS|FDNAMES)|NOTIFY_SOCKET|MANAGERPID|SYSTEMD_EXEC_PID)$/

export function forKernels(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept: Record<string, string> = {}
  for (const [name, value] of Object.entries(env))
    if (value !== undefined && !NOT_FOR_KERNELS.test(name)) kept[name] = value
  return kept
}

/**
 * Variables of an interactive login shell, over the daemon's own. Resolves always: with the daemon's own when the shell fails,
 * takes longer than 10 s or prints no environment; `trouble` is then told why.
 */
export async function captureLoginEnvironment(
  own: Readonly<Record<string, string | undefined>>,
  trouble: (reason: string) => void,
  timeoutMs = TIMEOUT_MS,
): Promise<Variables> {
  const base = forKernels(own)
  if (process.platform === 'win32') return base
  const shell = own.SHELL || userInfo().shell || '/bin/sh'
  try {
    return { ...base, ...forKernels(await askShell(shell, base, timeoutMs)) }
  } catch (error) {
    trouble(
      `the environment of the login shell ${shell} could not be read (${error instanceof Error ? error.message : String(error)}); kernels get the daemon's own`,
    )
    return base
  }
}

function askShell(shell: string, env: Variables, timeoutMs: number): Promise<Record<string, string>> {
  // Profiles print greetings: the environment stands between two marks that no profile knows.
  const mark = randomBytes(12).toString('hex')
  const command = `printf %s ${mark}; env -0; printf %s ${mark}`
  return new Promise((resolve, reject) => {
    const child = spawn(shell, ['-i', '-l', '-c', command], {
      env: { ...env, ROOMD_ASKS_ENVIRONMENT: '1' },
      stdio: ['ignore', 'pipe', 'ignore'],
      // An interactive shell would stop itself trying to take our terminal; in a session of its own there is none.
      detached: true,
    })
    const pieces: Buffer[] = []
    let size = 0
    const finish = (failure: Error | null): void => {
      clearTimeout(timer)
      child.stdout.destroy()
      if (failure !== null && child.pid !== undefined) askToEnd(child.pid)
      if (failure === null) {
        try {
          resolve(between(Buffer.concat(pieces).toString('utf8'), mark))
        } catch (error) {
          reject(error)
        }
      } else reject(failure)
    }
    const timer = setTimeout(() => finish(new Error(`no answer within ${timeoutMs / 1000} s`)), timeoutMs)
    timer.unref()
    child.once('error', finish)
    child.stdout.on('data', (piece: Buffer) => {
      size += piece.length
      if (size > MAX_BYTES) finish(new Error('it printed more than 4 MiB'))
      else {
        pieces.push(piece)
        // Something that the profile left running may hold the pipe open: the second mark is the end.
        if (ended(pieces, mark)) finish(null)
      }
    })
    child.once('close', () => finish(null))
  })
}

function ended(pieces: readonly Buffer[], mark: string): boolean {
  const text = Buffer.concat(pieces)
  const first = text.indexOf(mark)
  return first !== -1 && text.indexOf(mark, first + mark.length) !== -1
}

/**
 * A profile that takes too long is asked to end, never killed: it may hold a lock (pyenv's `rehash` does) that only its own exit
 * takes away, and every later login shell of the user would wait for it. One that answered is left to end by itself, with what it
 * started on purpose (an agent).
 */
function askToEnd(pid: number): void {
  try {
    process.kill(-pid, 'SIGTERM')
  } catch {
    // The shell and all it started are gone already.
  }
}

function between(text: string, mark: string): Record<string, string> {
  const [, inside, after] = text.split(mark)
  if (inside === undefined || after === undefined) throw new Error('it printed no environment')
  const variables: Record<string, string> = {}
  for (const entry of inside.split('\0')) {
    const equals = entry.indexOf('=')
    if (equals > 0) variables[entry.slice(0, equals)] = entry.slice(equals + 1)
  }
  return variables
}
