/** The way in: settings to a client that is connected. */
import { type Clock, systemClock } from '../../protocol/clock.ts'
import { parseOutside } from '../../protocol/errors.ts'
import { EDITS_TOGETHER } from '../../protocol/events.ts'
import { ClientInstance } from '../../protocol/ids.ts'
import type { PeerKind } from '../../protocol/notebook.ts'
import { DAEMON_EVENTS } from '../../protocol/projects.ts'
import { VERSION } from '../../protocol/version.ts'
import { Client } from './client.ts'
import type { Dialer } from './dialer.ts'

/** How long a call waits for a daemon that is away. */
export const DEFAULT_WAIT_MS = 10_000

export interface ConnectOptions {
  /** Path of the daemon's socket. Default: computed from `env` (`ROOMD_SOCKET`, `ROOMD_HOME`, the platform's folders). */
  readonly socket?: string | undefined
  /** Default: the process's environment. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  /** A daemon reached by WebSocket instead: `wss://host:port`. */
  readonly url?: string | undefined
  /** For a URL. */
  readonly token?: string | undefined
  /** How others see this client. Default: its name. */
  readonly label?: string | undefined
  readonly kind?: PeerKind | undefined
  /** The program: name and version. */
  readonly name?: string | undefined
  readonly version?: string | undefined
  /**
   * This client's lifetime as its user sees it, 8 to 64 of `A-Za-z0-9_-`; a new process with the same one goes on where the old
   * one was. Default: `ROOMD_CLIENT_INSTANCE`, else random.
   */
  readonly clientInstance?: string | undefined
  /**
   * Starts a daemon when a call finds none; resolves when it may be dialled. Never used when `ROOMD_NO_AUTOSTART` is set. What it
   * throws (a RoomdError) is what the waiting calls reject with.
   */
  readonly autostart?: (() => Promise<void>) | false | undefined
  /** How long calls, and `connect` itself, wait for a daemon that is away, in ms; 0: one attempt decides. Default: 10 s. */
  readonly waitMs?: number | undefined
  /**
   * For a client that repeats mutations of another process under their ids: the lowest id that may still be repeated. The daemon
   * keeps results from there on.
   */
  readonly settledBelow?: (() => number) | undefined
  /** Aborts connecting; has no effect on the connected client. */
  readonly signal?: AbortSignal | undefined
  /** For tests: time, chance, and the way to the daemon. */
  readonly clock?: Clock | undefined
  readonly random?: (() => number) | undefined
  readonly dialer?: Dialer | undefined
}

/**
 * Connects to the daemon; the client redials by itself from then on. Rejects with `daemon_lost` when none answers within the wait,
 * `unauthorized`, `forbidden`, or `unsupported` (no common protocol version: the message says which side to update).
 */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const env = options.env ?? (typeof process === 'object' ? process.env : {})
  const dialer = options.dialer ?? (await dialerOf(options))
  const name = options.name ?? 'roomd-client'
  const clientInstance = options.clientInstance ?? env.ROOMD_CLIENT_INSTANCE ?? globalThis.crypto.randomUUID()
  const client = new Client({
    dialer,
    hello: {
      client_instance: parseOutside(ClientInstance, clientInstance, 'clientInstance'),
      client: { name, version: options.version ?? VERSION, pid: dialer.pid },
      label: options.label ?? name,
      kind: options.kind ?? (options.url === undefined ? 'editor' : 'remote'),
      features: [DAEMON_EVENTS, EDITS_TOGETHER],
      ...(options.token === undefined ? {} : { token: options.token }),
    },
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    autostart: options.autostart && !env.ROOMD_NO_AUTOSTART ? options.autostart : null,
    waitMs: options.waitMs ?? DEFAULT_WAIT_MS,
    settledBelow: options.settledBelow,
  })
  await client.start(options.signal)
  return client
}

/** Node's part is loaded only where it is needed, so that the rest runs in browsers. */
async function dialerOf({ url, token, socket, env }: ConnectOptions): Promise<Dialer> {
  if (url !== undefined) {
    const { webSocketDialer } = await import('./websocket-dialer.ts')
    return webSocketDialer({ url, token })
  }
  const { nodeDialer } = await import('./node-dialer.ts')
  return nodeDialer({ socket, env })
}
