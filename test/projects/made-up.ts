/** Git and kernels that are made up, at the border where processes would be: each wait is a scheduler's, and nothing is started. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { AdoptedKernel, Kernel, KernelProvider, StartRequest } from '../../daemon/kernels/kernel.ts'
import type { Deputies, DeputyEnd } from '../../daemon/projects/deputies.ts'
import { GitError } from '../../daemon/projects/git/errors.ts'
import { Git, type GitOptions } from '../../daemon/projects/git/git.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { ExecutionId, NotebookId } from '../../protocol/ids.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import type { KernelSummary } from '../../protocol/notebook.ts'
import { ScriptedKernel } from '../executions/support.ts'
import type { Life, Scheduler } from './scheduler.ts'

/** How git behaves, whichever daemon asks it. */
export class GitWorld {
  /** What every two commits differ by: paths in the repository. */
  changes: readonly string[] = []
  /** Text of `roomd.json` at every commit; null: there is none. */
  manifest: string | null = null
  /** Nothing is heard of a source, so that each fetch of it is given up. */
  silent = false
}

export class MadeUpGit extends Git {
  readonly #scheduler: Scheduler
  readonly #life: Life
  readonly #world: GitWorld

  constructor(scheduler: Scheduler, life: Life, world: GitWorld, deputies: Deputies) {
    super(deputies, async () => ({}))
    this.#scheduler = scheduler
    this.#life = life
    this.#world = world
  }

  override async end(args: readonly string[], options: GitOptions): Promise<DeputyEnd> {
    const [command = '', ...rest] = args
    await this.#life.hold(`git ${command}`)
    options.signal?.throwIfAborted()
    const done = (code: number, stdout = ''): DeputyEnd => {
      return { code, signal: null, stdout, stderr: '', ended: null, failure: null }
    }
    if (['fetch', 'clone', 'reset'].includes(command) && this.#scheduler.random() < this.#scheduler.failing)
      throw new GitError(options.what, { ...done(1), stderr: 'made up' })
    const last = rest.at(-1) ?? ''
    if (this.#world.silent && last === 'origin')
      throw new GitError(options.what, { ...done(0), code: null, signal: 'SIGKILL', ended: 'stalled' })
    switch (command) {
      case 'init':
        mkdirSync(last, { recursive: true })
        return done(0)
      case 'fetch': {
        const source = /url = "(.*)"/.exec(readFileSync(join(options.cwd, config(options.cwd)), 'utf8'))?.[1]
        const tip = join(options.cwd, 'refs', 'roomd', 'tip')
        mkdirSync(dirname(tip), { recursive: true })
        if (source) writeFileSync(tip, readFileSync(join(source, '.git', 'refs', 'heads', 'main')))
        return done(0)
      }
      case 'clone':
        mkdirSync(join(last, '.git'), { recursive: true })
        writeFileSync(join(last, '.git', 'config'), '[core]\n')
        return done(0)
      case 'checkout': {
        const ref = join('refs', 'heads', rest.at(-2) ?? '')
        mkdirSync(dirname(join(options.cwd, '.git', ref)), { recursive: true })
        writeFileSync(join(options.cwd, '.git', 'HEAD'), `ref: ${ref}\n`)
        writeFileSync(join(options.cwd, '.git', ref), `${last}\n`)
        return done(0)
      }
      case 'reset': {
        const head = readFileSync(join(options.cwd, '.git', 'HEAD'), 'utf8')
        writeFileSync(join(options.cwd, '.git', head.trim().slice('ref: '.length)), `${last}\n`)
        return done(0)
      }
      case 'cat-file':
        return this.#world.manifest === null ? done(128) : done(0, this.#world.manifest)
      case 'diff':
        return done(0, this.#world.changes.map((path) => `${path}\0`).join(''))
      case 'config':
        return done(1)
      default:
        return done(0)
    }
  }
}

const config = (cwd: string): string => (existsSync(join(cwd, 'config')) ? 'config' : join('.git', 'config'))

const spec: KernelSpecSummary = {
  name: 'javascript',
  display_name: 'Made up',
  language: 'javascript',
  source: 'embedded',
  path: process.execPath,
  usable: true,
}

export class MadeUp extends ScriptedKernel {
  override readonly name = spec.name
  override readonly language = spec.language
  readonly notebookId: NotebookId
  /** The process that stands behind it; null: not known. */
  pid: number | null = null
  readonly #end: (kernel: MadeUp) => Promise<void>
  readonly #died: (kernel: MadeUp) => void

  constructor(
    notebookId: NotebookId,
    fate: { end(kernel: MadeUp): Promise<void>; died(kernel: MadeUp): void },
  ) {
    super()
    this.notebookId = notebookId
    this.#end = fate.end
    this.#died = fate.died
  }

  override summary(): KernelSummary {
    return { ...super.summary(), pid: this.pid, host_pid: null }
  }

  override shutdown(): Promise<void> {
    return this.#end(this)
  }

  /** Tells its death, as its host would. */
  override die(): void {
    this.#died(this)
    super.die()
  }

  /** Begins with what was handed to it first and has not begun. */
  beginNext(): void {
    const next = this.sent[this.#begun]
    if (!next) throw new Error('nothing waits for this kernel')
    this.#begun++
    this.begin(next.requestId as ExecutionId)
  }

  /** Ends what runs; begins with the next first if nothing does. */
  finish(): void {
    if (this.#begun === this.#ended) this.beginNext()
    const running = this.sent[this.#ended]
    this.#ended++
    this.end(running?.requestId as ExecutionId)
  }

  #begun = 0
  #ended = 0
}

/** Kernels outlive the daemon that started them, as real ones do. */
export class MadeUpKernels implements KernelProvider {
  readonly alive = new Set<MadeUp>()
  /** Every start that was asked for. */
  readonly starts: StartRequest[] = []
  readonly #scheduler: Scheduler

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler
  }

  specs = async () => [spec]
  environment = async () => ({})
  program = async () => process.execPath
  choose = async () => spec
  running = () => [...this.alive]
  dispose(): void {}

  async adopt(): Promise<{ kernels: AdoptedKernel[]; gone: [] }> {
    return { kernels: [...this.alive].map((kernel) => ({ kernel, notebookId: kernel.notebookId })), gone: [] }
  }

  /** The same kernels, as one daemon has them. */
  seenBy(life: Life): KernelProvider {
    const { specs, environment, program, choose, running } = this
    return {
      specs,
      environment,
      program,
      choose,
      running,
      dispose: () => {},
      adopt: () => this.adopt(),
      start: (request) => this.start(request, life),
    }
  }

  of(notebookId: string): MadeUp | undefined {
    return [...this.alive].find((kernel) => kernel.notebookId === notebookId)
  }

  async start(request: StartRequest, life: Pick<Life, 'hold'> = this.#scheduler): Promise<Kernel> {
    const { notebookId, signal } = request
    this.starts.push(request)
    await life.hold('kernel start')
    if (signal?.aborted) throw new RoomdError('kernel_start_failed', 'called off')
    if (this.#scheduler.random() < this.#scheduler.failing)
      throw new RoomdError('kernel_start_failed', 'made up')
    const kernel = new MadeUp(notebookId, {
      end: async (ending) => {
        await this.#scheduler.hold('kernel end')
        this.alive.delete(ending)
      },
      died: (dead) => this.alive.delete(dead),
    })
    this.alive.add(kernel)
    return kernel
  }
}
