/**
 * A kernel that a gateway runs: starts or adopts it, asks after it, interrupts and ends it, all by REST. There is no process of
 * this machine, so nothing is signalled or stopped; it is over when the gateway says so.
 *
 * Race: an end that is wanted while the start is under way waits for the start's answer, because without an id nothing can be
 * ended. A start whose answer is lost may leave a kernel at the gateway that nobody knows; the error says so.
 */
import type { Clock } from '../../../protocol/clock.ts'
import { messageOf, RoomdError } from '../../../protocol/errors.ts'
import type { RemoteLaunch } from '../../../protocol/kernel-host.ts'
import type { KernelExit, KernelProcess } from '../kernel-process.ts'
import type { KernelSide } from '../kernel-side.ts'
import { GatewayApi, GatewayError } from './gateway-api.ts'
import { Incarnation } from './incarnation.ts'
import { because, WsChannels } from './ws-channels.ts'

export interface RemoteKernelOptions {
  readonly clock: Clock
  readonly launch: RemoteLaunch
  readonly token: string | null
  /** Our session id at the gateway: the kernel's id with us. */
  readonly session: string
  readonly ownPrefix: string
  /** Writes down what a new host needs: the gateway's id of the kernel and the kernel's own session id. Throws when it cannot. */
  record(kernelId: string, session: string | null): void
  log(message: string): void
}

/** Between two looks at a kernel that is connected: a gateway does not close the WebSocket of a kernel that somebody else ended. */
const LOOK_MS = 5_000
const END_RETRY_MS = 500

export function remoteKernel(options: RemoteKernelOptions): KernelSide {
  const kernel = new RemoteKernel(options)
  return {
    process: kernel,
    remote: true,
    channels: (handlers) =>
      new WsChannels(
        {
          clock: options.clock,
          api: kernel.api,
          kernelId: kernel.id,
          session: options.session,
          incarnation: kernel.incarnation,
          adopted: options.launch.kernel_id !== null,
          ownPrefix: options.ownPrefix,
          over: (reason) => kernel.over(reason),
          sessionKnown: () => kernel.recordSession(),
        },
        handlers,
      ),
    again: () => null,
    cleanUp: () => {},
  }
}

class RemoteKernel implements KernelProcess {
  readonly api: GatewayApi
  readonly incarnation: Incarnation
  readonly exited: Promise<KernelExit>
  /** The gateway's id; stays open when there is none. */
  readonly id: Promise<string>
  readonly identity = null
  readonly stopped = false
  readonly #options: RemoteKernelOptions
  #finish: (exit: KernelExit) => void = () => {}
  #gone = false
  #known: string | null = null
  #ending = false

  constructor(options: RemoteKernelOptions) {
    this.#options = options
    const { launch, token, session } = options
    this.api = new GatewayApi({ name: launch.gateway, url: launch.url, token, tokenEnv: launch.token_env })
    this.incarnation = new Incarnation(session, launch.kernel_session)
    this.exited = new Promise((resolve) => {
      this.#finish = resolve
    })
    this.id = launch.kernel_id === null ? this.#start() : this.#adopted(launch.kernel_id)
    void this.id.then(() => this.#watch())
  }

  get gone(): boolean {
    return this.#gone
  }

  /** The gateway has no such kernel any more, or another one in its place. */
  over(reason: string): void {
    if (this.#gone) return
    this.#gone = true
    this.#finish({ code: null, signal: null, reason })
  }

  recordSession(): void {
    if (this.#known === null) return
    try {
      this.#options.record(this.#known, this.incarnation.session)
    } catch (error) {
      // Only a new host would need it, which has the other signs.
      this.#options.log(`the kernel's session could not be recorded: ${String(error)}`)
    }
  }

  async interrupt(): Promise<void> {
    if (this.#known === null) return
    try {
      await this.api.interrupt(this.#known)
    } catch (error) {
      throw new RoomdError('runtime_not_ready', `the kernel was not interrupted: ${messageOf(error)}`)
    }
  }

  /** Not for a remote kernel: what it prints is kept on disk instead. */
  stop(): void {}
  resume(): void {}

  terminate(): void {
    if (this.#ending || this.#gone) return
    this.#ending = true
    void this.id.then((id) => this.#end(id))
  }

  /** The last word: whoever waits for the end waits no longer. The daemon sees to it that nothing is left at the gateway. */
  kill(): void {
    this.terminate()
    this.over(`${this.api.title} did not confirm in time that the kernel has ended`)
  }

  check(): void {
    void this.#look()
  }

  async #start(): Promise<string> {
    const { launch, record } = this.#options
    let id: string
    try {
      id = await this.api.start(launch.spec, launch.env)
    } catch (error) {
      this.over(messageOf(error))
      return new Promise(() => {})
    }
    this.#known = id
    try {
      record(id, null)
    } catch (error) {
      // A kernel that nobody could find would run for ever.
      await this.#end(id)
      this.over(`the kernel's id could not be recorded: ${messageOf(error)}`)
      return new Promise(() => {})
    }
    return id
  }

  #adopted(id: string): Promise<string> {
    this.#known = id
    return Promise.resolve(id)
  }

  async #end(id: string): Promise<void> {
    try {
      await this.api.end(id)
      this.over('the kernel was ended')
    } catch (error) {
      this.#options.log(`ending the kernel failed: ${messageOf(error)}`)
      if (!this.#gone) this.#options.clock.after(END_RETRY_MS, () => void this.#end(id))
    }
  }

  #watch(): void {
    this.#options.clock.after(LOOK_MS, () => {
      if (this.#gone) return
      void this.#look().then(() => this.#watch())
    })
  }

  /** A failure means nothing here: the WebSocket knows better whether the gateway is there. */
  async #look(): Promise<void> {
    if (this.#gone || this.#known === null || this.#ending) return
    try {
      const kernel = await this.api.kernel(this.#known)
      if (kernel === null) this.over(`${this.api.title} has no such kernel any more: somebody ended it there`)
      else if (kernel.executionState === 'dead')
        this.over(`the kernel died at ${this.api.title}${because(kernel.reason)}`)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
    }
  }
}
