/**
 * The provider of local kernels: finds kernelspecs, starts a kernel and its host, takes kernels over after a daemon's death. Owns
 * the set of running kernels and their rows. Row first, then process: whatever a daemon began is found by the next one.
 */
import { randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { type BootId, KernelId } from '../../protocol/ids.ts'
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import type { Places } from '../../protocol/places.ts'
import { kernelFolder, lastLines } from '../kernel-host/folder.ts'
import { machineBoot } from '../kernel-host/process-identity.ts'
import type { Store } from '../store/store.ts'
import { endUnknown, lookAtRow, removeKernelFiles } from './adoption.ts'
import { captureLoginEnvironment, type Variables } from './environment.ts'
import { HostedKernel } from './host-client.ts'
import type { HostTarget } from './host-link.ts'
import { readHostRecord, readLaunch } from './host-records.ts'
import { spawnHost } from './host-spawn.ts'
import type { AdoptedKernel, GoneKernel, Kernel, KernelProvider, StartRequest } from './kernel.ts'
import { kernelPlaces } from './kernel-places.ts'
import {
  deleteKernel,
  insertKernel,
  type KernelRow,
  readKernels,
  updateHost,
  updatePid,
} from './kernel-rows.ts'
import { chooseSpec, findKernelSpecs, type KernelSpec, summaryOf, usableSpec } from './kernelspecs.ts'

export interface KernelProviderOptions {
  readonly store: Store
  readonly places: Places
  readonly log: Logger
  readonly clock: Clock
  readonly bootId: BootId
  /** What kernels get; default: the login shell's, captured once. */
  readonly environment?: () => Promise<Variables>
}

/** A kernel that has not said it is ready by then has failed. */
const START_MS = 120_000
/** How long adopting waits for a living host's answer; it goes on in the background. */
const REACH_MS = 2_000

export function createKernelProvider(options: KernelProviderOptions): KernelProvider {
  return new LocalKernels(options)
}

class LocalKernels implements KernelProvider {
  readonly #options: KernelProviderOptions
  readonly #environment: Promise<Variables>
  readonly #kernels = new Map<KernelId, HostedKernel>()
  #disposed = false

  constructor(options: KernelProviderOptions) {
    this.#options = options
    const capture =
      options.environment ??
      (() => captureLoginEnvironment(process.env, (reason) => options.log.warn(reason)))
    // Begun at once: the first start shall not wait for a slow profile.
    this.#environment = capture()
    this.#environment.catch((error: unknown) => options.log.error({ error }, 'no environment for kernels'))
  }

  async specs(): Promise<KernelSpecSummary[]> {
    return (await this.#specs()).map(summaryOf)
  }

  async choose(wanted: { name?: string; language?: string }): Promise<KernelSpecSummary> {
    return summaryOf(chooseSpec(await this.#specs(), wanted))
  }

  async start(request: StartRequest): Promise<Kernel> {
    const spec = usableSpec(await this.#specs(), request.name)
    if (statSync(request.cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
      throw new RoomdError(
        'kernel_start_failed',
        `the kernel's working directory ${request.cwd} does not exist; make it, or choose another`,
        { retryable: false },
      )
    throwIfCalledOff(request.signal)
    const kernel = await this.#launch(spec, request)
    try {
      await this.#readyInTime(kernel, request.signal)
    } catch (error) {
      await kernel.shutdown(1_000)
      throw error
    }
    const { process: identity } = kernel
    // The host's own record says it too; this is for who reads the store.
    this.#write([updatePid(kernel.id, identity?.pid ?? null, identity?.started ?? null)])
    return kernel
  }

  async adopt(): Promise<{ kernels: AdoptedKernel[]; gone: GoneKernel[] }> {
    const { store, places, log } = this.#options
    const rows = readKernels(store).filter((row) => !this.#kernels.has(row.kernelId))
    endUnknown(places, new Set([...rows.map((row) => row.kernelId), ...this.#kernels.keys()]), (message) =>
      log.warn(message),
    )
    const boot = machineBoot()
    const kernels: AdoptedKernel[] = []
    const gone: GoneKernel[] = []
    for (const row of rows) {
      const finding = lookAtRow(row, kernelPlaces(places, row.kernelId).folder, boot)
      if (finding.kind === 'gone') {
        gone.push({ kernelId: row.kernelId, notebookId: row.notebookId, reason: finding.reason })
      } else {
        const kernel = this.#hosted(row, finding.target, finding.process, false)
        kernels.push({ kernel, notebookId: row.notebookId })
      }
    }
    if (gone.length > 0) await store.write(gone.map((each) => deleteKernel(each.kernelId)))
    for (const each of gone) removeKernelFiles(places, each.kernelId)
    await Promise.all([...this.#kernels.values()].map((kernel) => kernel.reached(REACH_MS)))
    return { kernels, gone }
  }

  running(): Kernel[] {
    return [...this.#kernels.values()]
  }

  dispose(): void {
    this.#disposed = true
    for (const kernel of this.#kernels.values()) kernel.release()
    this.#kernels.clear()
  }

  async #specs(): Promise<KernelSpec[]> {
    return findKernelSpecs(await this.#environment)
  }

  async #launch(spec: KernelSpec, request: StartRequest): Promise<HostedKernel> {
    const { store, places, clock } = this.#options
    const id = KernelId.parse(randomUUID())
    const { folder, socket, ipc } = kernelPlaces(places, id)
    const files = kernelFolder(folder)
    const launch: HostLaunch = {
      kernel_id: id,
      nonce: randomUUID(),
      socket,
      ipc_dir: process.platform === 'win32' ? '' : ipc,
      argv: spec.argv.map((argument) => argument.replaceAll('{connection_file}', files.connection)),
      cwd: request.cwd,
      interrupt_mode: spec.interruptMode,
      transport: process.platform === 'win32' ? 'tcp' : 'ipc',
      orphan_grace_ms: request.orphanGraceMs,
      first_seq: 1,
    }
    const row: KernelRow = {
      kernelId: id,
      notebookId: request.notebookId,
      name: spec.name,
      language: spec.language,
      nonce: launch.nonce,
      socket,
      hostPid: null,
      pid: null,
      pidStarted: null,
      machineBoot: machineBoot(),
      consumedSeq: 0,
      startedAt: clock.now(),
    }
    await store.write([insertKernel(row, launch)])
    try {
      const env = { ...(await this.#environment), ...spec.env, ...request.env }
      const host = await spawnHost(folder, launch, env)
      this.#write([updateHost(id, launch.nonce, host.pid)])
      return this.#hosted(row, { process: host, nonce: launch.nonce }, null, true)
    } catch (error) {
      await this.#forget(id)
      throw new RoomdError(
        'kernel_start_failed',
        `the kernel host could not be started: ${error instanceof Error ? error.message : String(error)}`,
      )
    }
  }

  #hosted(
    row: KernelRow,
    target: HostTarget,
    identity: HostedKernel['process'],
    starting: boolean,
  ): HostedKernel {
    const { clock, bootId, log } = this.#options
    const kernel = new HostedKernel({
      id: row.kernelId,
      notebookId: row.notebookId,
      name: row.name,
      language: row.language,
      startedAt: row.startedAt,
      socket: row.socket,
      bootId,
      clock,
      target,
      process: identity,
      starting,
      recorded: () =>
        readHostRecord(kernelFolder(kernelPlaces(this.#options.places, row.kernelId).folder))?.kernel ?? null,
      replace: (last) => this.#replaceHost(row.kernelId, last),
      ended: (ended) => this.#forget(ended.id),
      log: (message) => log.info({ kernel: row.kernelId }, message),
    })
    this.#kernels.set(row.kernelId, kernel)
    return kernel
  }

  /** A new host for a kernel whose host died. Its events are numbered behind `last` and behind what the old one spooled. */
  async #replaceHost(id: KernelId, last: number): Promise<HostTarget> {
    const folder = kernelPlaces(this.#options.places, id).folder
    const files = kernelFolder(folder)
    const launch = readLaunch(files)
    const kernel = readHostRecord(files)?.kernel
    if (launch === null || kernel === null || kernel === undefined)
      throw new Error(
        `its host ended before it had started it: ${lastLines(files.hostLog) || 'no reason was logged'}`,
      )
    const next: HostLaunch = {
      ...launch,
      nonce: randomUUID(),
      first_seq: last + 1,
      adopt: { pid: kernel.pid, pid_started: kernel.started },
    }
    this.#options.log.warn({ kernel: id }, 'the kernel host died: starting another that adopts the kernel')
    await this.#options.store.write([updateHost(id, next.nonce, null)])
    const host = await spawnHost(folder, next, await this.#environment)
    this.#write([updateHost(id, next.nonce, host.pid)])
    return { process: host, nonce: next.nonce }
  }

  async #readyInTime(kernel: HostedKernel, signal: AbortSignal | undefined): Promise<void> {
    const { clock, places } = this.#options
    let cancel: () => void = () => {}
    const late = new Promise<never>((_resolve, reject) => {
      cancel = clock.after(START_MS, () => {
        const lines = lastLines(kernelFolder(kernelPlaces(places, kernel.id).folder).kernelLog)
        reject(
          new RoomdError(
            'kernel_start_failed',
            `the kernel "${kernel.name}" did not answer within ${START_MS / 1000} s; ${lines === '' ? 'it printed nothing' : `its last lines:\n${lines}`}`,
          ),
        )
      })
    })
    const calledOff = new Promise<void>((resolve) =>
      signal?.addEventListener('abort', () => resolve(), { once: true }),
    )
    try {
      throwIfCalledOff(signal)
      await Promise.race([kernel.ready, late, calledOff])
      throwIfCalledOff(signal)
    } finally {
      cancel()
    }
  }

  /** Row and files of a kernel that is gone. */
  async #forget(id: KernelId): Promise<void> {
    this.#kernels.delete(id)
    if (this.#disposed) return
    await this.#options.store.write([deleteKernel(id)])
    removeKernelFiles(this.#options.places, id)
  }

  /** What nobody waits for: the next daemon finds the same in `host.json`. */
  #write(unit: Parameters<Store['write']>[0]): void {
    if (this.#disposed) return
    this.#options.store.write(unit).catch((error: unknown) => {
      this.#options.log.warn({ error }, 'a kernel row was not updated')
    })
  }
}

function throwIfCalledOff(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true)
    throw new RoomdError('kernel_start_failed', `the kernel's start was called off: ${String(signal.reason)}`)
}
