/**
 * Asks the socket whether a daemon lives behind it, without loading the SDK: it dials and exchanges the 8 bytes of the preamble. A
 * connect alone proves nothing, because the kernel accepts for a stopped process until its backlog is full.
 */
import { connect } from 'node:net'
import { PROTOCOL_HIGHEST, PROTOCOL_LOWEST } from '../../../protocol/version.ts'

export type Presence =
  /** Something answered the preamble. */
  | { readonly state: 'answers' }
  /** Nobody listens. */
  | { readonly state: 'absent' }
  /** Somebody accepts and says nothing: stopped, or hung. */
  | { readonly state: 'silent' }
  /** The socket is there and may not be used, or is no socket of ours. */
  | { readonly state: 'refused'; readonly reason: string }

/** Milliseconds a daemon has for the preamble; the protocol allows five seconds. */
const PATIENCE = 5000

export function probe(socketPath: string, patience = PATIENCE): Promise<Presence> {
  return new Promise((resolve) => {
    const end = Date.now() + patience
    const attempt = () => {
      const socket = connect(socketPath)
      let connected = false
      const finish = (presence: Presence) => {
        clearTimeout(timer)
        socket.removeAllListeners()
        // A late error of a socket we have done with concerns nobody.
        socket.on('error', () => {})
        socket.destroy()
        resolve(presence)
      }
      const timer = setTimeout(() => finish({ state: 'silent' }), Math.max(1, end - Date.now()))
      socket.on('connect', () => {
        connected = true
        socket.write(preamble())
      })
      socket.on('data', (data) => {
        const ours = data.subarray(0, 4).toString('latin1') === 'ROOM'
        finish(ours ? { state: 'answers' } : { state: 'refused', reason: 'it does not speak our protocol' })
      })
      socket.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'EAGAIN' && Date.now() < end) {
          // The listen backlog is full at this moment; the protocol says to try again at once.
          clearTimeout(timer)
          socket.destroy()
          setImmediate(attempt)
        } else if (error.code === 'ENOENT' || error.code === 'ECONNREFUSED' || connected) {
          // Once connected, a reset is a daemon that ended.
          finish({ state: 'absent' })
        } else {
          finish({ state: 'refused', reason: error.message })
        }
      })
      socket.on('close', () => finish({ state: 'absent' }))
    }
    attempt()
  })
}

function preamble(): Buffer {
  return Buffer.from([0x52, 0x4f, 0x4f, 0x4d, PROTOCOL_LOWEST, PROTOCOL_HIGHEST, 0, 0])
}
