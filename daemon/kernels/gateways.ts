/**
 * The gateways of the settings: which kernelspecs they offer, under the names `gateway/spec`. Their answers are kept for a moment,
 * and nobody who wants a kernel of this machine ever waits for one.
 */
import type { Clock } from '../../protocol/clock.ts'
import type { GatewaySettings } from '../../protocol/config.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import { GatewayApi, GatewayError, type RemoteSpec } from '../kernel-host/remote/gateway-api.ts'

/** Whether a kernelspec's name speaks of a gateway, one of the settings or not: names of this machine's specs hold no slash. */
export function isAtGateway(kernelName: string): boolean {
  return kernelName.includes('/')
}

export interface GatewaySpec {
  readonly settings: GatewaySettings
  readonly spec: RemoteSpec
}

/** How long an answer serves: specs change seldom, and a gateway that is away may come back any moment. */
const FRESH_MS = 15_000
const FAULT_FRESH_MS = 3_000
/** How long a list of kernels waits for gateways that were not asked lately. */
const LIST_WAIT_MS = 3_000

type Known =
  | { readonly kind: 'specs'; readonly at: number; readonly specs: readonly RemoteSpec[] }
  | { readonly kind: 'fault'; readonly at: number; readonly error: GatewayError }

interface Gateway {
  readonly settings: GatewaySettings
  known: Known | null
  asking: Promise<Known> | null
}

export class Gateways {
  readonly #gateways: ReadonlyMap<string, Gateway>
  readonly #clock: Clock
  readonly #variable: (name: string) => Promise<string | undefined>

  /** `variable` reads one of the daemon's environment variables. */
  constructor(
    settings: readonly GatewaySettings[],
    clock: Clock,
    variable: (name: string) => Promise<string | undefined>,
  ) {
    this.#gateways = new Map(
      settings.map((each) => [each.name, { settings: each, known: null, asking: null }]),
    )
    this.#clock = clock
    this.#variable = variable
  }

  /** Whether the name speaks of one of them: `gateway/…`. */
  names(kernelName: string): boolean {
    return this.#of(kernelName) !== undefined
  }

  /** All their specs; a gateway that does not answer is one entry that says why. Resolves within 3 s. */
  async summaries(): Promise<KernelSpecSummary[]> {
    const lists = await Promise.all([...this.#gateways.values()].map((gateway) => this.#listed(gateway)))
    return lists.flat()
  }

  /** The spec of that name. Throws `kernel_not_found` when the gateway has none, `kernel_start_failed` when it cannot be asked. */
  async find(kernelName: string): Promise<GatewaySpec> {
    const gateway = this.#of(kernelName)
    if (gateway === undefined)
      throw new RoomdError('kernel_not_found', `no gateway of the settings offers "${kernelName}"`)
    const { settings } = gateway
    const wanted = kernelName.slice(settings.name.length + 1)
    // A start is worth a question: what was wrong a moment ago may be repaired.
    const known =
      gateway.known?.kind === 'specs' && this.#fresh(gateway.known) ? gateway.known : await this.#ask(gateway)
    if (known.kind === 'fault') throw startRefused(kernelName, known.error)
    const spec = known.specs.find((each) => each.name === wanted)
    if (spec !== undefined) return { settings, spec }
    const names = known.specs.map((each) => `${settings.name}/${each.name}`)
    throw new RoomdError(
      'kernel_not_found',
      `the gateway "${settings.name}" (${settings.url}) has no kernel "${wanted}"; it offers: ${names.join(', ') || 'none'}`,
      { cause: { name: kernelName, found: names } },
    )
  }

  /** The token, or null when none is configured or its variable is not set. Never to be logged or written. */
  async token(tokenEnv: string | null): Promise<string | null> {
    const value = tokenEnv === null ? undefined : await this.#variable(tokenEnv)
    return value === undefined || value === '' ? null : value
  }

  #of(kernelName: string): Gateway | undefined {
    const slash = kernelName.indexOf('/')
    return slash <= 0 ? undefined : this.#gateways.get(kernelName.slice(0, slash))
  }

  async #listed(gateway: Gateway): Promise<KernelSpecSummary[]> {
    const { settings } = gateway
    const known = await this.#soon(gateway)
    const base = { source: 'gateway', path: settings.url }
    if (known?.kind === 'specs')
      return known.specs.map((spec) => ({
        ...base,
        name: `${settings.name}/${spec.name}`,
        display_name: spec.displayName,
        language: spec.language,
        usable: true,
      }))
    const reason =
      known === null
        ? `the gateway "${settings.name}" (${settings.url}) has not answered yet; ask again in a moment`
        : known.error.message
    return [
      {
        ...base,
        name: `${settings.name}/*`,
        display_name: settings.name,
        language: '',
        usable: false,
        reason,
      },
    ]
  }

  /** What is known and fresh, else the answer if it comes in time, else what was known before. */
  async #soon(gateway: Gateway): Promise<Known | null> {
    const before = gateway.known
    if (before !== null && this.#fresh(before)) return before
    let cancel: () => void = () => {}
    const late = new Promise<Known | null>((resolve) => {
      cancel = this.#clock.after(LIST_WAIT_MS, () => resolve(before))
    })
    return Promise.race([this.#ask(gateway), late]).finally(cancel)
  }

  #fresh(known: Known): boolean {
    return this.#clock.now() - known.at < (known.kind === 'specs' ? FRESH_MS : FAULT_FRESH_MS)
  }

  /** One question at a time a gateway. */
  #ask(gateway: Gateway): Promise<Known> {
    gateway.asking ??= this.#answer(gateway).then((known) => {
      gateway.known = known
      gateway.asking = null
      return known
    })
    return gateway.asking
  }

  async #answer({ settings }: Gateway): Promise<Known> {
    const tokenEnv = settings.token_env ?? null
    const api = new GatewayApi({
      name: settings.name,
      url: settings.url,
      token: await this.token(tokenEnv),
      tokenEnv,
    })
    try {
      return { kind: 'specs', specs: await api.specs(), at: this.#clock.now() }
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return { kind: 'fault', error, at: this.#clock.now() }
    }
  }
}

/** Whether trying again may help is in the fault: a wrong token stays wrong. */
function startRefused(kernelName: string, error: GatewayError): RoomdError {
  return new RoomdError(
    'kernel_start_failed',
    `the kernel "${kernelName}" cannot be started: ${error.message}`,
    {
      retryable: error.fault === 'away',
      cause: { name: kernelName, fault: error.fault, status: error.status },
    },
  )
}
