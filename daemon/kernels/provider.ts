/**
 * The provider of kernels, of this machine and of gateways: finds kernelspecs, starts a kernel and its host, takes kernels over
 * after a daemon's death. Owns the set of running kernels and their rows. Row first, then process: whatever a daemon began is found by the next one.
 */
import { randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { GatewaySettings } from '../../protocol/config.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { type BootId, KernelId } from '../../protocol/ids.ts'
import { GATEWAY_TOKEN, type HostLaunch } from '../../protocol/kernel-host.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import type { Places } from '../../protocol/places.ts'
import { kernelFolder, lastLines } from '../kernel-host/folder.ts'
import { machineBoot } from '../kernel-host/process-identity.ts'
import type { Store } from '../store/store.ts'
import { endUnknown, lookAtRow, removeKernelFiles } from './adoption.ts'
import { captureLoginEnvironment, type Variables } from './environment.ts'
import { GatewayLeftovers } from './gateway-leftovers.ts'
import { Gateways } from './gateways.ts'
import { HostedKernel } from './host-client.ts'
import { adoption, type Chosen, firstLaunch } from './host-launch.ts'
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
  updateBoot,
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
  /** Default: ipc where the system has it. */
  readonly transport?: 'ipc' | 'tcp'
  /** What kernels get; default: the login shell's, captured once. */
  readonly environment?: () => Promise<Variables>
  /** Servers whose kernels are offered too. */
  readonly gateways?: readonly GatewaySettings[]
}

/** A kernel that has not said it is ready by then has failed. */
const START_MS = 120_000
/** How long adopting waits for a living host's answer; it goes on in the background. */
const REACH_MS = 2_000

export function createKernelProvider(options: KernelProviderOptions): KernelProvider {
  return new Kernels(options)
}

class Kernels implements KernelProvider {
  readonly #options: KernelProviderOptions
  #environment: Promise<Variables> | null = null
  readonly #kernels = new Map<KernelId, HostedKernel>()
  readonly #gateways: Gateways
  readonly #leftovers: GatewayLeftovers
  #disposed = false

  constructor(options: KernelProviderOptions) {
    this.#options = options
    this.#gateways = new Gateways(
      options.gateways ?? [],
      options.clock,
      // A login service gives the daemon none of what the user's profile sets.
      async (name) => process.env[name] ?? (await this.environment())[name],
    )
    this.#leftovers = new GatewayLeftovers({
      places: options.places,
      clock: options.clock,
      token: (tokenEnv) => this.#gateways.token(tokenEnv),
      log: (message) => options.log.info(message),
    })
  }

  async specs(): Promise<KernelSpecSummary[]> {
    const [local, remote] = await Promise.all([this.#specs(), this.#gateways.summaries()])
    return [...local.map(summaryOf), ...remote]
  }

  /** Asked of the shell once, at the first call. */
  environment(): Promise<Variables> {
    if (this.#environment === null) {
      const { environment, log } = this.#options
      const capture =
        environment ?? (() => captureLoginEnvironment(process.env, (reason) => log.warn(reason)))
      this.#environment = capture()
      this.#environment.catch((error: unknown) => log.error({ error }, 'no environment for kernels'))
    }
    return this.#environment
  }

  async program(name: string): Promise<string> {
    return usableSpec(await this.#specs(), name).argv[0] ?? ''
  }

  async choose(wanted: { name?: string; language?: string }): Promise<KernelSpecSummary> {
    const { name } = wanted
    if (name !== undefined && this.#gateways.names(name)) {
      const { settings, spec } = await this.#gateways.find(name)
      return {
        name,
        display_name: spec.displayName,
        language: spec.language,
        source: 'gateway',
        path: settings.url,
        usable: true,
      }
    }
    return summaryOf(chooseSpec(await this.#specs(), wanted))
  }

  async start(request: StartRequest): Promise<Kernel> {
    const chosen = await this.#chosen(request.name)
    if (chosen.kind === 'local' && statSync(request.cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
      throw new RoomdError(
        'kernel_start_failed',
        `the kernel's working directory ${request.cwd} does not exist; make it, or choose another`,
        { retryable: false },
      )
    throwIfCalledOff(request.signal)
    const kernel = await this.#launch(chosen, request)
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
    const known = new Set([...rows.map((row) => row.kernelId), ...this.#kernels.keys()])
    endUnknown(
      places,
      known,
      store.health().incomplete === true,
      (id) => this.#leave(id),
      (message) => log.warn(message),
    )
    this.#leftovers.resume()
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
    this.#leftovers.dispose()
    for (const kernel of this.#kernels.values()) kernel.release()
    this.#kernels.clear()
  }

  async #chosen(name: string): Promise<Chosen> {
    if (this.#gateways.names(name)) {
      const at = await this.#gateways.find(name)
      return { kind: 'gateway', name, language: at.spec.language, at }
    }
    const spec = usableSpec(await this.#specs(), name)
    return { kind: 'local', name: spec.name, language: spec.language, spec }
  }

  async #specs(): Promise<KernelSpec[]> {
    return findKernelSpecs(await this.environment())
  }

  async #launch(chosen: Chosen, request: StartRequest): Promise<HostedKernel> {
    const { store, places, clock } = this.#options
    const local = chosen.kind === 'local' ? chosen.spec : null
    const id = KernelId.parse(randomUUID())
    const { folder } = kernelPlaces(places, id)
    const own = { ...local?.env, ...request.env }
    const environment = { ...(await this.environment()), ...own }
    const launch = firstLaunch({
      places,
      id,
      chosen,
      request,
      environment,
      transport: this.#options.transport,
    })
    const row: KernelRow = {
      kernelId: id,
      notebookId: request.notebookId,
      name: chosen.name,
      language: chosen.language,
      nonce: launch.nonce,
      socket: launch.socket,
      hostPid: null,
      pid: null,
      pidStarted: null,
      machineBoot: machineBoot(),
      consumedSeq: 0,
      startedAt: clock.now(),
    }
    await store.write([insertKernel(row, launch, request.standby === true)])
    try {
      const env = { ...(await this.#hostEnvironment(launch)), ...own }
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

  /** For a local kernel it is the kernel's own. Only the host of a remote one gets the token, in no other way. */
  async #hostEnvironment({ remote }: HostLaunch): Promise<Variables> {
    const environment = await this.environment()
    if (remote === undefined) return environment
    const token = await this.#gateways.token(remote.token_env)
    return token === null ? environment : { ...environment, [GATEWAY_TOKEN]: token }
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
    const record = readHostRecord(files)
    const again = launch === null || record === null ? null : adoption(launch, record)
    if (launch === null || again === null)
      throw new Error(
        `its host ended before it had started it: ${lastLines(files.hostLog) || 'no reason was logged'}`,
      )
    const next: HostLaunch = {
      ...launch,
      nonce: randomUUID(),
      first_seq: last + 1,
      ...again,
    }
    this.#options.log.warn({ kernel: id }, 'the kernel host died: starting another that adopts the kernel')
    await this.#options.store.write([updateHost(id, next.nonce, null), updateBoot(id, machineBoot())])
    const host = await spawnHost(folder, next, await this.#hostEnvironment(next))
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
    this.#leave(id)
    await this.#options.store.write([deleteKernel(id)])
    removeKernelFiles(this.#options.places, id)
  }

  /** A kernel whose files are about to go: a gateway may still have it. */
  #leave(id: KernelId): void {
    const files = kernelFolder(kernelPlaces(this.#options.places, id).folder)
    const remote = readLaunch(files)?.remote
    const kernelId = readHostRecord(files)?.remote?.kernel_id ?? null
    if (remote === undefined || kernelId === null) return
    const { gateway, url, token_env } = remote
    this.#leftovers.add({ gateway, url, token_env, kernel_id: kernelId, since: this.#options.clock.now() })
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
