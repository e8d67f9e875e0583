/**
 * A small shell that starts short programs for the daemon. Starting one from the daemon itself copies the page tables of a large
 * process, some ten milliseconds in which nobody is served; the shell's are next to nothing. What a program prints goes to two files,
 * which are read when it has ended.
 *
 * The shell leads a process group with everything it starts, and is on disk before it gets its first line, so the next daemon can
 * end what is left. It kills its group when its input ends, which it does when the daemon dies.
 *
 * Race: what runs while the shell itself is killed is ended with it, and told as killed; the next program gets a new shell.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { lazily } from '../../protocol/lazily.ts'
import { identify, machineBoot, type ProcessIdentity, processRow } from '../kernel-host/process-identity.ts'
import { killTree } from '../kernel-host/process-tree.ts'
import type { DeputyEnd } from './deputies.ts'

export interface LaunchOptions {
  readonly cwd: string
  /** The environment of all; the shell is replaced when another object is given. */
  readonly base: Readonly<Record<string, string>>
  /** On top of it, for this program. */
  readonly env?: Readonly<Record<string, string>>
  /** Aborted: the program and what it started are killed. */
  readonly signal?: AbortSignal | undefined
  /** Kills it after so long. */
  readonly limitMs: number
  /** Bytes of standard output beyond which it counts as an error. */
  readonly keep: number
}

/** One line is one job; `$n` is a line break, which a line cannot hold. */
const SHELL = `n='
'
while IFS= read -r job; do eval "$job"; done
kill -KILL 0`

const Recorded = lazily(() => z.object({ pid: z.number(), started: z.number().nullable(), boot: z.string() }))

interface Job {
  /** Of the program itself, once it has started. */
  identity: ProcessIdentity | null
  /** To be killed as soon as it is known. */
  unwanted: boolean
  ended(code: number): void
}

interface Shell {
  readonly child: ChildProcess
  readonly identity: ProcessIdentity
  readonly base: LaunchOptions['base']
  readonly jobs: Map<number, Job>
  /** Gets nothing more to do, and ends with its last job. */
  retired: boolean
}

export class Launcher {
  readonly #folder: string
  #shell: Shell | null = null
  /** All that live: the present one, and those that end with their last job. */
  readonly #shells = new Set<Shell>()
  #last = 0
  #disposed = false

  /** `folder`: for the record and what programs print. */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** Whether this machine has such a shell. */
  static readonly usable = process.platform !== 'win32'

  /** Ends what the shell of an earlier daemon left, and forgets what it printed. */
  endOrphans(): void {
    try {
      const { boot, ...identity } = Recorded.parse(JSON.parse(readFileSync(this.#record, 'utf8')))
      // A group outlives its leader, and its number is nobody else's while it does.
      if (boot === machineBoot() && identity.started !== null) killTree(identity)
    } catch {
      // There was none, or its daemon died before the record was whole: then it was given nothing to do.
    }
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Resolves with how it ended; never rejects. `null`: it could not be started, which says nothing about the program. */
  async run(program: string, args: readonly string[], options: LaunchOptions): Promise<DeputyEnd | null> {
    const shell = this.#shellFor(options.base)
    if (shell === null) return null
    const number = ++this.#last
    const stdout = join(this.#folder, `${number}.out`)
    const stderr = join(this.#folder, `${number}.err`)
    let ended: DeputyEnd['ended'] = null
    const { signal } = options
    const code = await new Promise<number>((resolve) => {
      const job: Job = {
        identity: null,
        unwanted: false,
        ended: (how) => {
          clearTimeout(limit)
          signal?.removeEventListener('abort', kill)
          resolve(how)
        },
      }
      shell.jobs.set(number, job)
      const kill = (): void => {
        job.unwanted = true
        if (job.identity) killTree(job.identity)
      }
      const limit = setTimeout(() => {
        ended = 'too_long'
        kill()
      }, options.limitMs)
      signal?.addEventListener('abort', kill, { once: true })
      if (signal?.aborted) kill()
      shell.child.stdin?.write(jobLine(number, program, args, options, { stdout, stderr }))
    })
    shell.jobs.delete(number)
    endIfDone(shell)
    const tooMuch = sizeOf(stdout) > options.keep
    const end: DeputyEnd = {
      code: tooMuch || code - 128 in SIGNALS ? null : code,
      signal: SIGNALS[code - 128] ?? null,
      stdout: tooMuch ? '' : textOf(stdout),
      stderr: textOf(stderr).slice(-64 * 1024),
      ended: tooMuch ? 'too_much_output' : ended,
      failure: null,
    }
    rmSync(stdout, { force: true })
    rmSync(stderr, { force: true })
    return end
  }

  /** Ends everything that runs. */
  dispose(): void {
    this.#disposed = true
    this.#shell = null
    if (this.#shells.size === 0) return
    for (const shell of this.#shells) killTree(shell.identity)
    rmSync(this.#folder, { recursive: true, force: true })
  }

  get #record(): string {
    return join(this.#folder, 'shell.json')
  }

  #shellFor(base: LaunchOptions['base']): Shell | null {
    if (this.#disposed) return null
    if (this.#shell?.base === base) return this.#shell
    if (this.#shell) {
      this.#shell.retired = true
      endIfDone(this.#shell)
    }
    this.#shell = this.#start(base)
    return this.#shell
  }

  #start(base: LaunchOptions['base']): Shell | null {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const child = spawn('/bin/sh', ['-c', SHELL], {
      cwd: '/',
      env: { ...base },
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const jobs = new Map<number, Job>()
    const gone = (): void => {
      if (this.#shell?.child === child) this.#shell = null
      for (const shell of this.#shells) if (shell.child === child) this.#shells.delete(shell)
      for (const job of jobs.values()) {
        if (job.identity) killTree(job.identity)
        job.ended(128 + 9)
      }
    }
    child.once('error', gone)
    const { pid } = child
    if (pid === undefined) return null
    const identity = identify(pid)
    writeFileSync(this.#record, JSON.stringify({ ...identity, boot: machineBoot() }), { mode: 0o600 })
    // What it leaves holds its output open: ended, so that everything it has said is heard before it counts as gone.
    child.once('exit', () => killTree(identity))
    child.once('close', gone)
    // A shell that is gone is told by `close`.
    child.stdin?.on('error', () => undefined)
    let rest = ''
    child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      const lines = (rest + piece).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) heard(jobs, line, pid)
    })
    const shell: Shell = { child, identity, base, jobs, retired: false }
    this.#shells.add(shell)
    return shell
  }
}

/** `s NUMBER PID` or `e NUMBER CODE`. */
function heard(jobs: ReadonlyMap<number, Job>, line: string, group: number): void {
  const [what, number, value] = line.split(' ')
  const job = jobs.get(Number(number))
  if (!job) return
  if (what === 'e') {
    job.ended(Number(value))
    return
  }
  const row = processRow(Number(value))
  // It may have ended before we look, and its pid be another's: only what is of the shell's group is its.
  if (row?.group !== group) return
  job.identity = { pid: row.pid, started: row.started }
  if (job.unwanted) killTree(job.identity)
}

function endIfDone({ retired, jobs, child }: Shell): void {
  if (retired && jobs.size === 0) child.stdin?.end()
}

function jobLine(
  number: number,
  program: string,
  args: readonly string[],
  { cwd, env = {} }: LaunchOptions,
  { stdout, stderr }: { stdout: string; stderr: string },
): string {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`)
  const set = variables.length > 0 ? `export ${variables.join(' ')} && ` : ''
  const command = [program, ...args].map(quoted).join(' ')
  const run = `(cd ${quoted(cwd)} && ${set}exec ${command}) </dev/null >${quoted(stdout)} 2>${quoted(stderr)} &`
  return `{ ${run} p=$!; echo "s ${number} $p"; wait $p; echo "e ${number} $?"; } &\n`
}

/** A word for the shell, on one line. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`).replaceAll('\n', `'"$n"'`)}'`
}

const SIGNALS: Readonly<Record<number, NodeJS.Signals>> = {
  9: 'SIGKILL',
  15: 'SIGTERM',
  11: 'SIGSEGV',
  6: 'SIGABRT',
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // The shell was killed before it made it.
    return ''
  }
}
