/** Channel 0: what the server answers itself (`ping`, `status`, `fetch_blob`, `shutdown`) and what it hands to the rooms. */
import { RoomdError } from '../../protocol/errors.ts'
import { MAX_QUEUED_CONNECTION } from '../../protocol/frames.ts'
import type { BlobHash, BootId, ClientInstance } from '../../protocol/ids.ts'
import { isLedgerMethod, type LedgerMethod } from '../../protocol/ledger.ts'
import type {
  ConnectionMethod,
  DaemonStatus,
  MethodArguments,
  MethodResult,
  TokenSummary,
} from '../../protocol/methods.ts'
import { VERSION } from '../../protocol/version.ts'
import type { RequestContext, Rooms } from '../rooms/seam.ts'
import type { StoreHealth } from '../store/store.ts'
import { type Call, WithBlob } from './requests.ts'
import type { RoomsGate } from './rooms-gate.ts'

export type StopRequest = Pick<MethodArguments<'shutdown'>, 'reason' | 'next_version' | 'kernels'>

/** What the process provides to its server. */
export interface DaemonProcess {
  readonly bootId: BootId
  /** Epoch ms. */
  readonly startedAt: number
  readonly socket: string
  /** The HTTP listener. Asked once the rooms are ready; resolves when it listens, or when it is known that it does not. */
  http(): Promise<HttpSide>
  storeHealth(): StoreHealth
  /** Newest generation and mutation id of a client instance, for WELCOME; must answer before the rooms are ready too. */
  instance(clientInstance: ClientInstance): { activation_generation: number; mutation_id: number }
  /** Content of a blob. Rejects `not_found`. */
  readBlob(hash: BlobHash): Promise<Uint8Array>
  /** A method of the ledger. Asked once the rooms are ready. */
  ledger(method: LedgerMethod, args: unknown, context: RequestContext): Promise<unknown>
  /** Ends the daemon in order; resolves once everything acknowledged is durable, and ends the process soon after. */
  stop(request: StopRequest): Promise<MethodResult<'shutdown'>>
}

export interface HttpSide {
  /** null when it is off. */
  readonly url: string | null
  /** null while there is no listener to use a token for. */
  readonly tokens: TokenDesk | null
}

/** Makes, lists and ends tokens. Throws RoomdError. */
export interface TokenDesk {
  create(asked: MethodArguments<'create_token'>): Omit<MethodResult<'create_token'>, 'http'>
  list(): TokenSummary[]
  revoke(tokenId: string): TokenSummary
}

export interface ConnectionMethodsOptions {
  readonly process: DaemonProcess
  readonly gate: RoomsGate
  now(): number
  /** Of all connections. */
  connections(): number
}

const nothing: MethodResult<'ping'> = Object.freeze({})

export class ConnectionMethods {
  readonly #options: ConnectionMethodsOptions

  constructor(options: ConnectionMethodsOptions) {
    this.#options = options
  }

  /** `port.queued()`: bytes that wait for this client to read. */
  perform(call: Call, port: { queued(): number }): unknown {
    const method = call.method as ConnectionMethod
    if (isLedgerMethod(method))
      return this.#whenReady(call, () => this.#options.process.ledger(method, call.args, call.context))
    switch (method) {
      case 'ping':
        return nothing
      case 'status':
        return this.#withHttp(call, ({ url }, rooms) => this.#status(url, rooms))
      case 'fetch_blob':
        return this.#fetchBlob(call.args as MethodArguments<'fetch_blob'>, port)
      case 'shutdown':
        return this.#whenReady(call, () => this.#shutdown(call.args as MethodArguments<'shutdown'>))
      case 'create_token': {
        const args = call.args as MethodArguments<'create_token'>
        return this.#withHttp(call, (http) => ({ ...desk(http).create(args), http: http.url }))
      }
      case 'list_tokens':
        return this.#withHttp(call, (http) => ({ tokens: desk(http).list() }))
      case 'revoke_token': {
        const { token_id } = call.args as MethodArguments<'revoke_token'>
        return this.#withHttp(call, (http) => ({ revoked: desk(http).revoke(token_id) }))
      }
      case 'list_rooms':
      case 'list_kernels':
      case 'find_room':
      case 'get_execution':
      case 'read_output':
      case 'close_room':
      case 'add_project':
      case 'list_projects':
      case 'get_project':
      case 'trust_project':
      case 'remove_project':
      case 'claim_room':
      case 'archive_room':
      case 'pool_status':
        return this.#whenReady(call, (rooms) => rooms.request(method, call.args, call.context))
      default: {
        // A method of the table that nobody answers would leave its caller waiting.
        const unanswered: never = method
        throw new RoomdError('unsupported', `${String(unanswered)} is not answered on channel 0`)
      }
    }
  }

  #whenReady(call: Call, run: (rooms: Rooms) => unknown): unknown {
    const { gate } = this.#options
    if (gate.rooms) return run(gate.rooms)
    return gate.wait().then((rooms) => {
      if (call.context.aborted) throw call.context.aborted
      return run(rooms)
    })
  }

  #withHttp(call: Call, run: (http: HttpSide, rooms: Rooms) => unknown): unknown {
    return this.#whenReady(call, async (rooms) => {
      const http = await this.#options.process.http()
      if (call.context.aborted) throw call.context.aborted
      return run(http, rooms)
    })
  }

  #status(http: string | null, rooms: Rooms): DaemonStatus {
    const { process: daemon, now, connections } = this.#options
    const memory = process.memoryUsage()
    return {
      running: true,
      pid: process.pid,
      boot_id: daemon.bootId,
      version: VERSION,
      uptime_s: Math.max(0, now() - daemon.startedAt) / 1000,
      socket: daemon.socket,
      http,
      ...rooms.counts(),
      connections: connections(),
      journal: { ...daemon.storeHealth() },
      memory: { rss: memory.rss, heap_used: memory.heapUsed },
    }
  }

  async #fetchBlob({ blob }: MethodArguments<'fetch_blob'>, port: { queued(): number }): Promise<WithBlob> {
    const content = await this.#options.process.readBlob(blob)
    // Many fetches may have been asked for before the first was read; they all passed the check that came before reading.
    if (port.queued() >= MAX_QUEUED_CONNECTION) {
      throw new RoomdError(
        'overloaded',
        'too much is waiting to be read on this connection; read it, then ask again',
      )
    }
    const value = new Uint8Array(32 + content.length)
    value.set(Buffer.from(blob, 'hex'), 0)
    value.set(content, 32)
    return new WithBlob({ size: content.length } satisfies MethodResult<'fetch_blob'>, value)
  }

  #shutdown(args: MethodArguments<'shutdown'>): Promise<MethodResult<'shutdown'>> {
    const { process: daemon } = this.#options
    if (args.boot_id !== daemon.bootId) {
      throw new RoomdError(
        'conflict',
        `this is daemon ${daemon.bootId}, not ${args.boot_id}: another one took over; look at its status before ending it`,
        { cause: { boot_id: daemon.bootId } },
      )
    }
    return daemon.stop(args)
  }
}

function desk({ tokens }: HttpSide): TokenDesk {
  if (tokens) return tokens
  throw new RoomdError(
    'unsupported',
    'the HTTP listener is off, so there is nothing to use a token for; see "roomd config get http", and "roomd logs" for a failure',
  )
}
