/**
 * The ways to daemons: one client of the local one, made when it is first needed and kept from then on (it redials by itself), and
 * one of each remote one that a session names. Concurrent needs share one attempt; a failed attempt is forgotten, so that the next
 * need tries again.
 */
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import type { PeerKind } from '../../protocol/notebook.ts'
import type { Client } from '../sdk/client.ts'
import { connect } from '../sdk/connect.ts'
import type { DaemonEvent } from '../sdk/connection.ts'
import { Emitter } from '../sdk/emitter.ts'
import { tokenFor } from './remote-token.ts'
import type { RemoteTarget, Target } from './sessions/target.ts'

export interface DaemonLinkOptions {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  /** Asked when a connection is made first: who its user is becomes known late. */
  readonly label: () => string
  readonly kind: PeerKind
  readonly clientInstance: string
  /** Starts a daemon; null: never. */
  readonly autostart: (() => Promise<void>) | null
  /** The lowest mutation id that may still be repeated, where somebody else numbers them. */
  readonly settledBelow?: (() => number) | undefined
}

interface Attempt {
  readonly client: Promise<Client>
  readonly mayStart: boolean
}

/** Milliseconds between two attempts of somebody who waits for a daemon in the background. */
const AGAIN = 1_000

export class DaemonLink extends Emitter<{ daemon: DaemonEvent }> {
  readonly #options: DaemonLinkOptions
  readonly #remote = new Map<string, Promise<Client>>()
  readonly #abort = new AbortController()
  #attempt: Attempt | null = null
  #client: Client | null = null

  constructor(options: DaemonLinkOptions) {
    super()
    this.#options = options
  }

  /** The local daemon's client, if there has been a connection. */
  get present(): Client | null {
    return this.#client
  }

  /** Connects to the local daemon, starting one where that is allowed. Rejects with `daemon_lost` and the like. */
  async local(): Promise<Client> {
    if (this.#client) return this.#client
    if (this.#abort.signal.aborted) throw closedError()
    const attempt = this.#attempt
    // An attempt that may not start a daemon says nothing about one that may.
    if (attempt && !attempt.mayStart) {
      try {
        return await attempt.client
      } catch {
        return this.local()
      }
    }
    return attempt ? attempt.client : this.#connect(true)
  }

  /** As `local`, for as long as it takes: starts a daemon at most once. Rejects when the link is closed. */
  async whenever(): Promise<Client> {
    for (let first = true; ; first = false) {
      if (this.#client) return this.#client
      try {
        return await (first ? this.local() : (this.#attempt?.client ?? this.#connect(false)))
      } catch (error) {
        if (this.#abort.signal.aborted) throw error
      }
      await this.#pause()
    }
  }

  /** The client that reaches this target's daemon. */
  for(target: Target): Promise<Client> {
    return target.kind === 'remote' ? this.#remoteClient(target) : this.local()
  }

  /** Closes every connection; peers go with them. */
  async close(): Promise<void> {
    this.#abort.abort()
    const remote = [...this.#remote.values()]
    this.#remote.clear()
    await Promise.allSettled([
      this.#client?.close(),
      ...remote.map((connecting) => connecting.then((client) => client.close())),
    ])
  }

  #connect(mayStart: boolean): Promise<Client> {
    const { env, autostart } = this.#options
    const connecting = connect({
      ...this.#identity(),
      env,
      clock: this.#options.clock,
      autostart: mayStart ? (autostart ?? false) : false,
      settledBelow: this.#options.settledBelow,
      signal: this.#abort.signal,
    })
    const attempt = { client: connecting, mayStart }
    this.#attempt = attempt
    connecting.then(
      (client) => {
        this.#attempt = null
        this.#client = client
        client.on('daemon', (event) => this.emit('daemon', event))
        if (client.daemon) this.emit('daemon', { state: 'connected', ...client.daemon })
      },
      () => {
        if (this.#attempt === attempt) this.#attempt = null
      },
    )
    return connecting
  }

  async #remoteClient({ daemon, token: given }: RemoteTarget): Promise<Client> {
    const token = given ?? tokenFor(daemon, this.#options.env)
    const key = `${daemon} ${token ?? ''}`
    const known = this.#remote.get(key)
    if (known) return known
    const connecting = connect({
      ...this.#identity(),
      url: daemon,
      token,
      kind: 'remote',
      clock: this.#options.clock,
      signal: this.#abort.signal,
    })
    this.#remote.set(key, connecting)
    connecting.catch(() => this.#remote.delete(key))
    return connecting
  }

  #identity() {
    const { label, kind, clientInstance } = this.#options
    return { label: label(), kind, name: 'roomd-mcp', clientInstance }
  }

  #pause(): Promise<void> {
    return new Promise((resolve, reject) => {
      const { signal } = this.#abort
      const stop = this.#options.clock.after(AGAIN, () => {
        signal.removeEventListener('abort', ended)
        resolve()
      })
      const ended = (): void => {
        stop()
        reject(closedError())
      }
      signal.addEventListener('abort', ended, { once: true })
    })
  }
}

function closedError(): RoomdError {
  return new RoomdError('client_closed', 'this MCP server is ending')
}
