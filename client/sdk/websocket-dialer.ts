/**
 * Dials a daemon over a WebSocket: `globalThis.WebSocket` in browsers, the `ws` package in Node (which can send the token as
 * a header; browsers cannot, so there it is the query parameter of the first request).
 */
import { RoomdError } from '../../protocol/errors.ts'
import { type WebSocketLike, webSocketTransport } from '../../protocol/wire/websocket-transport.ts'
import type { Dialer } from './dialer.ts'

/** Where the daemon speaks frames; used when the URL names no path. */
const SOCKET_PATH = '/v1/socket'

export interface WebSocketDialerOptions {
  /** `ws:`, `wss:`, `http:` or `https:`. */
  readonly url: string
  readonly token?: string | undefined
}

export function webSocketDialer({ url, token }: WebSocketDialerOptions): Dialer {
  const target = socketUrl(url)
  const node = isNode()
  return {
    // Without the query: it may hold a token.
    place: `${target.origin === 'null' ? `${target.protocol}//${target.host}` : target.origin}${target.pathname}`,
    pid: node ? process.pid : 0,
    dial: (signal, take) =>
      node ? dialNode(target, token, signal, take) : dialBrowser(target, token, signal, take),
    watch() {
      // Nothing tells when a remote daemon appears; the process must live until the next attempt.
      const hold = setInterval(() => {}, 60_000)
      return () => clearInterval(hold)
    },
    resolvePath: (path) => path,
  }
}

function socketUrl(url: string): URL {
  let target: URL
  try {
    target = new URL(url)
  } catch {
    throw new RoomdError('invalid_argument', `url: "${url}" is no URL; expected ws:// or wss://`)
  }
  if (target.protocol === 'http:') target.protocol = 'ws:'
  if (target.protocol === 'https:') target.protocol = 'wss:'
  if (target.protocol !== 'ws:' && target.protocol !== 'wss:')
    throw new RoomdError(
      'invalid_argument',
      `url: ${target.protocol} is not spoken; expected ws:// or wss://`,
    )
  if (target.pathname === '/' || target.pathname === '') target.pathname = SOCKET_PATH
  return target
}

function isNode(): boolean {
  return typeof process === 'object' && typeof process.versions?.node === 'string'
}

type Take = Parameters<Dialer['dial']>[1]

async function dialNode(target: URL, token: string | undefined, signal: AbortSignal, take: Take) {
  const { WebSocket } = await import('ws')
  const socket = new WebSocket(target, {
    headers: token ? { authorization: `Bearer ${token}` } : {},
    perMessageDeflate: false,
  })
  return opened(socket as unknown as WebSocketLike, signal, take, (refuse) => {
    socket.on('unexpected-response', (_request, response) => {
      response.resume()
      refuse(refusal(target, response.statusCode ?? 0))
    })
  })
}

async function dialBrowser(target: URL, token: string | undefined, signal: AbortSignal, take: Take) {
  const Native = (globalThis as { WebSocket?: new (url: URL) => WebSocketLike }).WebSocket
  if (!Native) throw new RoomdError('unsupported', 'this platform has no WebSocket; a Unix socket needs Node')
  const wanted = new URL(target)
  if (token) wanted.searchParams.set('token', token)
  const socket = new Native(wanted)
  return opened(socket, signal, take)
}

function refusal(target: URL, status: number): Error {
  if (status === 401)
    return new RoomdError('unauthorized', `${target.host} wants a token: pass connect({url, token})`)
  if (status === 403) return new RoomdError('forbidden', `${target.host} refused this token or this origin`)
  return new Error(`${target.host} answered HTTP ${status}`)
}

function opened(
  socket: WebSocketLike,
  signal: AbortSignal,
  take: Take,
  watchRefusal?: (refuse: (error: Error) => void) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => signal.removeEventListener('abort', abort)
    const fail = (error: Error): void => {
      settle()
      if (socket.terminate) socket.terminate()
      else socket.close()
      reject(error)
    }
    const abort = (): void => fail(new RoomdError('client_aborted', 'dialling was aborted'))
    if (signal.aborted) {
      abort()
      return
    }
    signal.addEventListener('abort', abort, { once: true })
    watchRefusal?.(fail)
    socket.addEventListener('open', () => {
      settle()
      resolve(take(webSocketTransport(socket)))
    })
    socket.addEventListener('error', (event) => {
      const message = (event as { message?: unknown } | null)?.message
      fail(new Error(typeof message === 'string' && message ? message : 'the WebSocket could not be opened'))
    })
  })
}
