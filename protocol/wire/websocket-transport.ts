/**
 * WebSockets as a message transport: the browser's own, and those of the `ws` package, which have the same shape. One frame a
 * binary message. Browsers tell nothing when their buffer drains, so the amount is looked at on a short timer, and only while
 * it is over the mark; `ws` calls back and needs no timer to pass.
 */
import { type Clock, systemClock } from '../clock.ts'
import type { Transport, TransportHandlers } from './transport.ts'

/** The part of a WebSocket that is used. */
export interface WebSocketLike {
  binaryType: string
  readonly bufferedAmount: number
  readonly readyState: number
  send(data: Uint8Array<ArrayBuffer>, sent?: (error?: Error | null) => void): void
  close(code?: number, reason?: string): void
  /** `ws` only: ends without the closing handshake. */
  terminate?(): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: { code: number; wasClean: boolean }) => void): void
  addEventListener(type: 'error' | 'open', listener: (event: unknown) => void): void
}

/** Bytes in the socket's own buffer above which `write` says wait. */
const HIGH_WATER = 256 * 1024
const LOOK_AGAIN_MS = 5
const OPEN = 1

/** Takes over an open WebSocket. Text messages are no frames and end the connection. */
export function webSocketTransport(socket: WebSocketLike, clock: Clock = systemClock): Transport {
  let handlers: TransportHandlers | null = null
  let waiting = false
  let cancelLook = () => {}
  let closed = false

  function finish(error?: Error): void {
    if (closed) return
    closed = true
    cancelLook()
    handlers?.closed(error)
  }
  function look(): void {
    if (closed || !waiting) return
    if (socket.bufferedAmount > HIGH_WATER) return
    waiting = false
    cancelLook()
    handlers?.drain()
  }
  function lookLater(): void {
    cancelLook = clock.after(LOOK_AGAIN_MS, () => {
      look()
      if (waiting && !closed) lookLater()
    })
  }
  const sent = () => look()

  return {
    framing: 'message',
    open(given) {
      if (handlers !== null) throw new Error('this transport was opened before')
      handlers = given
      let failed = false
      socket.binaryType = 'arraybuffer'
      socket.addEventListener('message', ({ data }) => {
        if (closed) return
        if (data instanceof ArrayBuffer) given.data(new Uint8Array(data))
        else if (data instanceof Uint8Array) given.data(data)
        else {
          socket.close(1003, 'binary messages only')
          finish(new Error('a text message arrived where only binary frames are spoken'))
        }
      })
      socket.addEventListener('error', () => {
        failed = true
      })
      socket.addEventListener('close', ({ code, wasClean }) => {
        finish(failed || !wasClean ? new Error(`the WebSocket closed with code ${code}`) : undefined)
      })
    },
    write(pieces) {
      if (closed || socket.readyState !== OPEN) return true
      for (const piece of pieces) socket.send(piece as Uint8Array<ArrayBuffer>, sent)
      if (socket.bufferedAmount <= HIGH_WATER) return true
      if (!waiting) {
        waiting = true
        lookLater()
      }
      return false
    },
    end() {
      socket.close(1000)
    },
    destroy() {
      if (socket.terminate) socket.terminate()
      else socket.close(1001)
      finish()
    },
  }
}
