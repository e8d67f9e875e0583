/**
 * The REST half of a gateway's API (Jupyter Server, Kernel Gateway, Enterprise Gateway): what both the kernel host and the daemon
 * ask of it. Every failure is one `GatewayError` whose kind says what to make of it and whose message says what to do. The token
 * travels in a header only and stands in no message.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { z } from 'zod'
import { lazily } from '../../../protocol/lazily.ts'

export interface GatewayAddress {
  /** The gateway's name in the settings. */
  readonly name: string
  readonly url: string
  readonly token: string | null
  /** Where the token comes from, for messages. */
  readonly tokenEnv: string | null
}

/**
 * `away`: no answer, or an answer that passes (the proxy in front says so): worth asking again. `unauthorized`, `certificate`,
 * `wrong_url`: nothing changes before a person does something. `refused`: the gateway was asked the right way and said no.
 */
export type GatewayFault = 'away' | 'unauthorized' | 'certificate' | 'wrong_url' | 'refused'

export class GatewayError extends Error {
  readonly fault: GatewayFault
  /** The HTTP status, if there was an answer. */
  readonly status: number | null

  constructor(fault: GatewayFault, message: string, status: number | null = null) {
    super(message)
    this.name = 'GatewayError'
    this.fault = fault
    this.status = status
  }
}

/** A kernelspec as the gateway tells it. */
export interface RemoteSpec {
  readonly name: string
  readonly displayName: string
  readonly language: string
}

export interface RemoteKernelModel {
  readonly id: string
  readonly executionState: string
  /** Why it is dead, where the gateway says it. */
  readonly reason: string | null
}

const SpecList = lazily(() =>
  z.looseObject({
    kernelspecs: z.record(
      z.string(),
      z.looseObject({
        spec: z.looseObject({ display_name: z.string().optional(), language: z.string().optional() }),
      }),
    ),
  }),
)
const KernelModel = lazily(() =>
  z.looseObject({
    id: z.string().min(1),
    execution_state: z.string().nullish(),
    reason: z.string().nullish(),
  }),
)
const Refusal = lazily(() => z.looseObject({ message: z.string(), traceback: z.unknown() }))

const ANSWER_MS = 15_000
/** For the greeting of TLS: a server that speaks plain HTTP waits for the end of a line instead of refusing. */
const GREETING_MS = 10_000
/** A cluster may have to find room for the kernel first. */
const START_MS = 115_000
const END_MS = 30_000
const MAX_BYTES = 16 * 1024 * 1024
/** Answers of a proxy whose server is being started or is overloaded. */
const PASSING_STATUS = new Set([408, 424, 425, 429, 502, 503, 504])

interface Answer {
  readonly status: number
  readonly text: string
  readonly location: string | undefined
}

export class GatewayApi {
  readonly address: GatewayAddress

  constructor(address: GatewayAddress) {
    this.address = address
  }

  /** How messages name it. */
  get title(): string {
    return `the gateway "${this.address.name}" (${this.address.url})`
  }

  /** Headers that prove who asks; also for the WebSocket. */
  get headers(): Record<string, string> {
    return this.address.token === null ? {} : { Authorization: `token ${this.address.token}` }
  }

  async specs(timeoutMs = ANSWER_MS): Promise<RemoteSpec[]> {
    const list = await this.#ask(SpecList, 'GET', 'api/kernelspecs', undefined, timeoutMs)
    return Object.entries(list.kernelspecs).map(([name, { spec }]) => ({
      name,
      displayName: spec.display_name ?? name,
      language: spec.language ?? '',
    }))
  }

  /** Starts a kernel; its id. An answer that never comes leaves it open whether one was started: the error says so. */
  async start(spec: string, env: Readonly<Record<string, string>>): Promise<string> {
    const body = { name: spec, ...(Object.keys(env).length === 0 ? {} : { env }) }
    return (await this.#ask(KernelModel, 'POST', 'api/kernels', body, START_MS)).id
  }

  /**
   * The kernel, or null when the gateway says for certain that it has none of that id: its list of kernels must say the same, since
   * a proxy or a wrong path answers 404 as well.
   */
  async kernel(id: string): Promise<RemoteKernelModel | null> {
    const answer = await this.#call('GET', kernelPath(id), undefined, ANSWER_MS)
    if (answer.status === 404) {
      const list = await this.#ask(z.array(KernelModel), 'GET', 'api/kernels', undefined, ANSWER_MS)
      if (!list.some((kernel) => kernel.id === id)) return null
      throw new GatewayError(
        'away',
        `${this.title} lists the kernel and says that it has none of that id`,
        404,
      )
    }
    const model = this.#parsed(KernelModel, answer, kernelPath(id))
    return { id: model.id, executionState: model.execution_state ?? 'unknown', reason: model.reason ?? null }
  }

  /** Resolves when the gateway has passed it on. */
  async interrupt(id: string): Promise<void> {
    this.#expectDone(await this.#call('POST', `${kernelPath(id)}/interrupt`, {}, ANSWER_MS), 'an interrupt')
  }

  /** Resolves when the kernel is gone, also when it was gone before. */
  async end(id: string): Promise<void> {
    const answer = await this.#call('DELETE', kernelPath(id), undefined, END_MS)
    if (answer.status === 404 && (await this.kernel(id)) === null) return
    this.#expectDone(answer, "the kernel's end")
  }

  /** URL of the kernel's WebSocket. `session` names the client: what waits for it is kept under that name. */
  channelsUrl(id: string, session: string): string {
    const url = new URL(`${this.#url(kernelPath(id))}/channels`)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    url.searchParams.set('session_id', session)
    return url.href
  }

  /** What a failed request of any kind means: errors of the system, of TLS, of HTTP. */
  faultOf(error: NodeJS.ErrnoException): GatewayError {
    const code = error.code ?? ''
    if (/CERT|SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET)|ERR_TLS|HOSTNAME_MISMATCH/.test(code))
      return new GatewayError(
        'certificate',
        `the certificate of ${this.title} is not trusted: ${error.message}. Name the file of its authority in NODE_EXTRA_CA_CERTS of the daemon's environment, or correct the URL`,
      )
    if (
      /^(?:EPROTO|ERR_SSL)/.test(code) ||
      /wrong version number|packet length too long/i.test(error.message)
    )
      return this.#noTls(firstLine(error.message))
    if (code === 'ENOTFOUND')
      return new GatewayError(
        'away',
        `there is no host of the name in the URL of ${this.title} just now (ENOTFOUND)`,
      )
    if (code.startsWith('HPE_'))
      return new GatewayError(
        'wrong_url',
        `${this.title} does not answer with HTTP; correct kernels.gateways`,
      )
    return new GatewayError('away', `${this.title} does not answer: ${error.message || code}`)
  }

  /** What an HTTP status other than success means. */
  statusFault({ status, text, location }: Answer, what: string): GatewayError {
    const { tokenEnv, token } = this.address
    const said = refusalIn(text)
    if (status === 401 || status === 403 || (status >= 300 && status < 400 && /login/.test(location ?? ''))) {
      const advice =
        tokenEnv === null
          ? 'it wants a token: name the variable that holds it as token_env in kernels.gateways'
          : token === null
            ? `the variable ${tokenEnv} that should hold its token is not set in the daemon's environment; set it and restart the daemon`
            : `it does not accept the token in ${tokenEnv}; correct it and restart the daemon`
      return new GatewayError('unauthorized', `${this.title} refused us (HTTP ${status}): ${advice}`, status)
    }
    if (PASSING_STATUS.has(status))
      return new GatewayError(
        'away',
        `${this.title} is not ready (HTTP ${status}${said === '' ? '' : `: ${said}`})`,
        status,
      )
    if (status >= 300 && status < 400)
      return new GatewayError(
        'wrong_url',
        `${this.title} sends us elsewhere (to ${location ?? 'nowhere'}); correct its URL in kernels.gateways`,
        status,
      )
    if (status === 404 || status === 405)
      return new GatewayError(
        'wrong_url',
        `${this.title} has no ${what}: is the URL right? Below it, api/kernels must be there`,
        status,
      )
    return new GatewayError(
      'refused',
      `${this.title} refused ${what} (HTTP ${status}${said === '' ? '' : `: ${said}`})`,
      status,
    )
  }

  #expectGreeting(call: ClientRequest): void {
    call.once('socket', (socket) => {
      const timer = setTimeout(() => {
        if (!socket.connecting) call.destroy(this.#noTls(`no greeting within ${GREETING_MS / 1000} s`))
      }, GREETING_MS)
      socket.once('secureConnect', () => clearTimeout(timer))
      socket.once('close', () => clearTimeout(timer))
    })
  }

  #noTls(why: string): GatewayError {
    return new GatewayError(
      'certificate',
      `${this.title} does not speak TLS there: ${why}. Is it http:// instead of https://?`,
    )
  }

  #expectDone(answer: Answer, what: string): void {
    if (answer.status < 200 || answer.status > 299) throw this.statusFault(answer, what)
  }

  async #ask<S extends z.ZodType>(
    schema: S,
    method: string,
    path: string,
    body: unknown,
    timeoutMs: number,
  ): Promise<z.output<S>> {
    return this.#parsed(schema, await this.#call(method, path, body, timeoutMs), path)
  }

  #parsed<S extends z.ZodType>(schema: S, answer: Answer, path: string): z.output<S> {
    if (answer.status < 200 || answer.status > 299) throw this.statusFault(answer, path)
    let value: unknown
    try {
      value = JSON.parse(answer.text)
    } catch {
      value = undefined
    }
    const parsed = schema.safeParse(value)
    if (parsed.success) return parsed.data
    throw new GatewayError(
      'wrong_url',
      `what answers at ${this.address.url} is no Jupyter server: ${path} is not what it should be; correct the URL of the gateway "${this.address.name}"`,
      answer.status,
    )
  }

  #url(path: string): string {
    return `${this.address.url.replace(/\/+$/, '')}/${path}`
  }

  #call(method: string, path: string, body: unknown, timeoutMs: number): Promise<Answer> {
    const url = new URL(this.#url(path))
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
    // Loaded with the first gateway: most daemons have none.
    const { request: send } = process.getBuiltinModule(url.protocol === 'https:' ? 'node:https' : 'node:http')
    return new Promise((resolve, reject) => {
      const call = send(url, {
        method,
        // Asked seldom: a connection that waits open would be found dead when it is wanted.
        agent: false,
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          ...this.headers,
          Accept: 'application/json',
          ...(payload === undefined
            ? {}
            : { 'Content-Type': 'application/json', 'Content-Length': String(payload.length) }),
        },
      })
      const failed = (error: Error): void =>
        reject(
          error instanceof GatewayError
            ? error
            : error.name === 'AbortError' || error.name === 'TimeoutError'
              ? new GatewayError('away', `${this.title} did not answer within ${timeoutMs / 1000} s`)
              : this.faultOf(error),
        )
      call.once('error', failed)
      if (url.protocol === 'https:') this.#expectGreeting(call)
      call.once('response', (response) => read(response).then(resolve, failed))
      call.end(payload)
    })
  }
}

async function read(response: IncomingMessage): Promise<Answer> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    size += piece.length
    if (size > MAX_BYTES) throw new GatewayError('wrong_url', 'the answer is larger than 16 MiB')
    pieces.push(piece)
  }
  return {
    status: response.statusCode ?? 0,
    text: Buffer.concat(pieces).toString('utf8'),
    location: response.headers.location,
  }
}

function kernelPath(id: string): string {
  return `api/kernels/${encodeURIComponent(id)}`
}

/** Jupyter's own words, without the traceback's rest: its last line is what happened. */
function refusalIn(text: string): string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return ''
  }
  const refusal = Refusal.safeParse(value)
  if (!refusal.success) return ''
  const { message, traceback } = refusal.data
  const last = typeof traceback === 'string' ? traceback.trimEnd().split('\n').at(-1) : undefined
  return firstLine(last === undefined ? message : `${message}: ${last}`)
}

function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0]?.slice(0, 300) ?? ''
}
