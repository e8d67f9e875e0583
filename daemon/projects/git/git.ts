/**
 * Git, called as a program. Nobody is ever asked for anything (there is no terminal), nothing waits for ever, and nothing that a
 * repository's own configuration names is run: hooks and the file system monitor are off, and the user's working copies are looked
 * at through our own git folder (uncommitted.ts). Credential helpers and agents are the user's own.
 */
import { devNull } from 'node:os'
import type { Variables } from '../../kernels/environment.ts'
import type { Deputies, DeputyEnd } from '../deputies.ts'
import { GitError } from './errors.ts'

/** Without a sign of life for so long, a transfer is given up. */
export const STALL_MS = 30_000
/** The longest that one git command may take. */
export const LIMIT_MS = 30 * 60_000

export interface GitOptions {
  readonly cwd: string
  /** For messages: what was to be done, such as "the project could not be fetched". */
  readonly what: string
  readonly signal?: AbortSignal | undefined
  /** Speaks to a remote: progress is asked for, and silence for STALL_MS ends it. */
  readonly transfer?: boolean
  readonly env?: Readonly<Record<string, string>>
  /** Exit codes beside 0 that are answers. */
  readonly answers?: readonly number[]
}

const SAFE = [
  '-c',
  'core.fsmonitor=false',
  '-c',
  `core.hooksPath=${devNull}`,
  '-c',
  'gc.auto=0',
  '-c',
  'maintenance.auto=false',
  '-c',
  'advice.detachedHead=false',
  '-c',
  'http.lowSpeedLimit=1',
  '-c',
  `http.lowSpeedTime=${STALL_MS / 1000}`,
]

export class Git {
  readonly #deputies: Deputies
  readonly #environment: () => Promise<Variables>
  #known: { readonly from: Variables; readonly base: Readonly<Record<string, string>> } | null = null

  /** `environment`: the login shell's, where credential helpers and agents are found. */
  constructor(deputies: Deputies, environment: () => Promise<Variables>) {
    this.#deputies = deputies
    this.#environment = environment
  }

  /** Standard output of a git command. Throws GitError; rejects with the signal's reason when aborted. */
  async run(args: readonly string[], options: GitOptions): Promise<string> {
    return (await this.end(args, options)).stdout
  }

  /** As `run`, with the exit code. */
  async end(args: readonly string[], options: GitOptions): Promise<DeputyEnd> {
    const { cwd, what, signal, transfer = false, env = {}, answers = [] } = options
    const base = this.#base(await this.#environment())
    const command = [...SAFE, ...args]
    const end = transfer
      ? await this.#deputies.run('git', command, {
          cwd,
          signal,
          env: { ...base, ...env },
          stallMs: STALL_MS,
          limitMs: LIMIT_MS,
        })
      : await this.#deputies.brief('git', command, { cwd, signal, base, env, limitMs: LIMIT_MS })
    if (end.code === 0 || (end.code !== null && answers.includes(end.code))) return end
    throw new GitError(what, end)
  }

  /** One object for one environment: what is started with it goes on being used. */
  #base(environment: Variables): Readonly<Record<string, string>> {
    if (this.#known?.from !== environment) this.#known = { from: environment, base: quiet(environment) }
    return this.#known.base
  }
}

/** What keeps git from asking, and from taking another repository for ours. */
function quiet(env: Variables): Record<string, string> {
  const kept = Object.fromEntries(
    Object.entries(env).filter(
      ([name]) =>
        !/^GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|NAMESPACE|CONFIG_PARAMETERS|CONFIG_COUNT|EDITOR|PAGER|TRACE.*)$/.test(
          name,
        ),
    ),
  )
  return {
    ...kept,
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: 'true',
    SSH_ASKPASS: 'true',
    SSH_ASKPASS_REQUIRE: 'never',
    GCM_INTERACTIVE: 'never',
    // Looking at a working copy writes nothing into it, not even its index.
    GIT_OPTIONAL_LOCKS: '0',
    // A partial clone names where missing objects come from, and how: nothing of that is done for it.
    GIT_NO_LAZY_FETCH: '1',
    ...(kept.GIT_SSH_COMMAND || kept.GIT_SSH
      ? {}
      : {
          GIT_SSH_COMMAND:
            'ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=10 -o ServerAliveCountMax=3',
        }),
  }
}
