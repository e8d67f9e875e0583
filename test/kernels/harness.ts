/** A store, a provider and a home for tests of kernels; and a listener that collects a kernel's events. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import pino from 'pino'
import type { Variables } from '../../daemon/kernels/environment.ts'
import type { Kernel, KernelProvider, StartRequest } from '../../daemon/kernels/kernel.ts'
import { createKernelProvider } from '../../daemon/kernels/provider.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { systemClock } from '../../protocol/clock.ts'
import type { GatewaySettings } from '../../protocol/config.ts'
import { BootId, NotebookId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { PATIENCE_MS, until } from '../support/until.ts'

export interface Bench {
  readonly home: TestHome
  readonly store: Store
  readonly provider: KernelProvider
  start(name: string, options?: Partial<StartRequest>): Promise<Kernel>
  /** Another daemon's provider on the same store, as after a daemon's death: the first lets go. */
  nextDaemon(): KernelProvider
}

/** Runs `use` with a provider of its own and ends everything that it started. */
export async function withKernels(
  use: (bench: Bench) => Promise<void>,
  options: {
    gateways?: readonly GatewaySettings[]
    variables?: Variables
    transport?: 'ipc' | 'tcp'
  } = {},
): Promise<void> {
  const home = createHome()
  const log = pino({ level: process.env.ROOMD_LOG_LEVEL ?? 'silent' })
  const store = await openStore({ file: join(home.places.state, 'roomd.db'), log })
  const make = (): KernelProvider =>
    createKernelProvider({
      store,
      places: home.places,
      log,
      clock: systemClock,
      bootId: BootId.parse(randomUUID()),
      environment: () =>
        // The very object: a test may add to it later.
        Promise.resolve(Object.assign(home.env, options.variables) as Variables),
      gateways: options.gateways ?? [],
      ...(options.transport === undefined ? {} : { transport: options.transport }),
    })
  const providers = [make()]
  const [provider] = providers as [KernelProvider]
  try {
    await use({
      home,
      store,
      provider,
      start: (name, options) =>
        provider.start({
          notebookId: NotebookId.parse(randomUUID()),
          name,
          cwd: home.work,
          orphanGraceMs: 60_000,
          ...options,
        }),
      nextDaemon() {
        providers.at(-1)?.dispose()
        const next = make()
        providers.push(next)
        return next
      },
    })
  } finally {
    for (const each of providers) await Promise.all(each.running().map((kernel) => kernel.shutdown(200)))
    for (const each of providers) each.dispose()
    await store.close()
    await home.dispose()
  }
}

/** All events of a kernel, acknowledged at once unless told otherwise. */
export class Listener {
  readonly events: HostEvent[] = []
  readonly #kernel: Kernel

  constructor(kernel: Kernel, options: { since?: number; acknowledge?: boolean } = {}) {
    this.#kernel = kernel
    kernel.listen(options.since ?? 0, (event) => {
      this.events.push(event)
      if (options.acknowledge !== false) kernel.acknowledge(event.seq)
    })
  }

  /** Waits for an event; each call looks at the events from the beginning. */
  event<K extends HostEvent['kind']>(
    kind: K,
    matches: (event: Extract<HostEvent, { kind: K }>) => boolean = () => true,
    timeout = PATIENCE_MS,
  ): Promise<Extract<HostEvent, { kind: K }>> {
    return until(
      `the kernel's ${kind} event`,
      () =>
        this.events.find(
          (event): event is Extract<HostEvent, { kind: K }> =>
            event.kind === kind && matches(event as Extract<HostEvent, { kind: K }>),
        ),
      { timeout, detail: () => JSON.stringify(this.events.slice(-10).map(brief)) },
    )
  }

  settled(requestId: string, timeout?: number): Promise<Extract<HostEvent, { kind: 'settled' }>> {
    return this.event('settled', (event) => event.request_id === requestId, timeout)
  }

  /** Runs code and resolves when it is settled. */
  async run(code: string, requestId: string = randomUUID()): Promise<string> {
    await this.begin(code, requestId)
    await this.settled(requestId)
    return requestId
  }

  /** Sends code; does not wait for its end. */
  async begin(code: string, requestId: string = randomUUID()): Promise<string> {
    await this.#kernel.send(executeRequest(code, requestId))
    return requestId
  }

  /** Joined stream text of one request, or of all. */
  text(requestId?: string): string {
    return this.events
      .filter((event) => event.kind === 'message')
      .filter((event) => event.message.msg_type === 'stream')
      .filter((event) => requestId === undefined || event.message.parent_id === requestId)
      .map((event) => String(event.message.content.text))
      .join('')
  }

  /** text/plain of the request's result. */
  result(requestId: string): string | undefined {
    for (const event of this.events) {
      if (event.kind !== 'message' || event.message.parent_id !== requestId) continue
      if (event.message.msg_type !== 'execute_result') continue
      const data = event.message.content.data as Record<string, unknown>
      return String(data['text/plain'])
    }
    return undefined
  }
}

/** The one kernel that this daemon adopts. */
export async function adoptOne(provider: KernelProvider): Promise<Kernel> {
  const { kernels, gone } = await provider.adopt()
  if (gone.length > 0) throw new Error(`a kernel is gone: ${gone[0]?.reason}`)
  const [adopted] = kernels
  if (adopted === undefined) throw new Error('no kernel was adopted')
  return adopted.kernel
}

export function executeRequest(code: string, requestId: string) {
  return {
    requestId,
    channel: 'shell' as const,
    msgType: 'execute_request',
    content: {
      code,
      silent: false,
      store_history: true,
      user_expressions: {},
      allow_stdin: false,
      stop_on_error: true,
    },
  }
}

export function brief(event: HostEvent): unknown {
  switch (event.kind) {
    case 'message':
      return `${event.seq} ${event.message.channel} ${event.message.msg_type}`
    case 'settled':
      return `${event.seq} settled ${event.request_id}`
    case 'ready':
    case 'died':
    case 'gap':
    case 'connection':
      return { ...event, info: undefined }
  }
}
