/**
 * Programs that work for the daemon (git, setup commands) and must not outlive it: a clone or an installation that goes on after its
 * daemon was killed would write into folders that the next daemon has taken away.
 *
 * Each is started behind a gate: a shell that waits for one line and then becomes the program. Its pid and start time are on disk
 * before the line is sent, so there is no moment in which a program runs that the next daemon does not know. A daemon that dies
 * earlier closes the pipe, and the shell ends by itself. Windows has no such shell: there the program starts at once.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { lazily } from '../../protocol/lazily.ts'
import { identify, isAlive, machineBoot, type ProcessIdentity } from '../kernel-host/process-identity.ts'
import { killTree } from '../kernel-host/process-tree.ts'
import { Launcher, type LaunchOptions } from './launcher.ts'

export interface DeputyOptions {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Aborted: the whole tree is killed; `run` rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Kills it after so long without output; null: no limit. */
  readonly stallMs?: number | null
  /** Kills it after so long altogether. */
  readonly limitMs?: number
  /** Bytes for its standard input. */
  readonly input?: string | Uint8Array
  /** Bytes of output kept; beyond it stdout is an error and stderr loses its beginning. Default 16 MiB. */
  readonly keep?: number
  /** Both streams as they come. */
  readonly heard?: (text: string) => void
}

export interface DeputyEnd {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** Why we ended it ourselves. */
  readonly ended: 'stalled' | 'too_long' | 'too_much_output' | null
  /** Set when it could not be started at all (ENOENT …). */
  readonly failure: NodeJS.ErrnoException | null
}

const KEEP_BYTES = 16 * 1024 * 1024
const Recorded = lazily(() => z.object({ pid: z.number(), started: z.number().nullable(), boot: z.string() }))

export class Deputies {
  readonly #folder: string
  readonly #running = new Set<ProcessIdentity>()
  readonly #launcher: Launcher
  #disposed = false

  /** `folder`: where the records of running programs lie. */
  constructor(folder: string) {
    this.#folder = folder
    this.#launcher = new Launcher(`${folder}-brief`)
  }

  /** Ends what an earlier daemon left running. Before anything else touches the folders that it worked in. */
  endOrphans(): void {
    this.#launcher.endOrphans()
    let names: string[]
    try {
      names = readdirSync(this.#folder)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
      throw error
    }
    const boot = machineBoot()
    for (const name of names) {
      const file = join(this.#folder, name)
      const recorded = readRecord(file)
      if (recorded !== null && recorded.boot === boot) {
        const identity = { pid: recorded.pid, started: recorded.started }
        // Without a start time the pid alone might be anybody's by now.
        if (recorded.started !== null && isAlive(identity)) killTree(identity)
      }
      rmSync(file, { force: true })
    }
  }

  /** Resolves with how it ended, whatever that was; rejects only when it was aborted. */
  async run(program: string, args: readonly string[], options: DeputyOptions): Promise<DeputyEnd> {
    const { signal } = options
    signal?.throwIfAborted()
    if (this.#disposed) throw new Error('the daemon is stopping')
    const gated = process.platform !== 'win32'
    let child: ChildProcess
    try {
      child = spawn(gated ? '/bin/sh' : program, gated ? ['-c', GATE, 'sh', program, ...args] : [...args], {
        cwd: options.cwd,
        env: { ...options.env },
        detached: gated,
        stdio: ['pipe', 'pipe', 'pipe'],
      })
    } catch (error) {
      return nothing(error as NodeJS.ErrnoException)
    }
    const { pid } = child
    if (pid === undefined) {
      return new Promise((resolve) => {
        child.once('error', (error) => resolve(nothing(error)))
      })
    }
    const identity = identify(pid)
    const record = this.#write(identity)
    this.#running.add(identity)
    try {
      const end = await follow(child, identity, options, gated)
      signal?.throwIfAborted()
      return end
    } finally {
      this.#running.delete(identity)
      rmSync(record, { force: true })
    }
  }

  /**
   * As `run`, for programs that print little and take no input: started from a small process (launcher.ts), at a tenth of the cost.
   */
  async brief(
    program: string,
    args: readonly string[],
    options: Omit<LaunchOptions, 'keep'>,
  ): Promise<DeputyEnd> {
    const { signal, base, env, cwd, limitMs } = options
    signal?.throwIfAborted()
    if (this.#disposed) throw new Error('the daemon is stopping')
    const end = Launcher.usable
      ? await this.#launcher.run(program, args, { ...options, keep: KEEP_BYTES })
      : null
    if (end === null) return this.run(program, args, { cwd, env: { ...base, ...env }, signal, limitMs })
    signal?.throwIfAborted()
    return end
  }

  /** Ends everything that runs. */
  dispose(): void {
    this.#disposed = true
    this.#launcher.dispose()
    for (const identity of this.#running) killTree(identity)
  }

  #write(identity: ProcessIdentity): string {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    const file = join(this.#folder, `${randomUUID()}.json`)
    writeFileSync(file, JSON.stringify({ ...identity, boot: machineBoot() }), { mode: 0o600 })
    return file
  }
}

/** Waits for one line on descriptor 0, then becomes the program, which reads the rest. */
const GATE = 'IFS= read -r go || exit 125; exec "$@"'

function follow(
  child: ChildProcess,
  identity: ProcessIdentity,
  options: DeputyOptions,
  gated: boolean,
): Promise<DeputyEnd> {
  const { signal, stallMs = null, limitMs, input, heard, keep = KEEP_BYTES } = options
  return new Promise((resolve) => {
    const stdout: Buffer[] = []
    let stdoutBytes = 0
    let stderr = ''
    let ended: DeputyEnd['ended'] = null
    let failure: NodeJS.ErrnoException | null = null
    const end = (why: DeputyEnd['ended']): void => {
      ended ??= why
      killTree(identity)
    }
    const abort = (): void => end(null)
    let stall: NodeJS.Timeout | undefined
    const sign = (): void => {
      clearTimeout(stall)
      if (stallMs !== null) stall = setTimeout(() => end('stalled'), stallMs)
    }
    const limit = limitMs === undefined ? undefined : setTimeout(() => end('too_long'), limitMs)
    sign()
    child.stdout?.on('data', (piece: Buffer) => {
      sign()
      heard?.(piece.toString('utf8'))
      stdoutBytes += piece.length
      if (stdoutBytes > keep) end('too_much_output')
      else stdout.push(piece)
    })
    child.stderr?.setEncoding('utf8').on('data', (piece: string) => {
      sign()
      heard?.(piece)
      stderr = (stderr + piece).slice(-64 * 1024)
    })
    child.once('error', (error) => {
      failure = error
    })
    child.once('close', (code, name) => {
      clearTimeout(stall)
      clearTimeout(limit)
      signal?.removeEventListener('abort', abort)
      resolve({ code, signal: name, stdout: Buffer.concat(stdout).toString('utf8'), stderr, ended, failure })
    })
    signal?.addEventListener('abort', abort, { once: true })
    if (signal?.aborted) abort()
    // A program that ends without reading its input breaks the pipe; its exit code tells what matters.
    child.stdin?.on('error', () => undefined)
    if (gated) child.stdin?.write('go\n')
    child.stdin?.end(input)
  })
}

function nothing(failure: NodeJS.ErrnoException): DeputyEnd {
  return { code: null, signal: null, stdout: '', stderr: '', ended: null, failure }
}

function readRecord(file: string): z.output<typeof Recorded> | null {
  try {
    return Recorded.parse(JSON.parse(readFileSync(file, 'utf8')))
  } catch {
    // Half written when its daemon died: then the gate was not opened, and nothing ran.
    return null
  }
}
