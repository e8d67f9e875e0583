/** Node sockets and pipes as a byte stream transport. The only file of the wire that knows Node's streams. */
import type { Duplex } from 'node:stream'
import type { Transport, TransportHandlers } from './transport.ts'

/**
 * Takes over a connected (or connecting) socket or any other duplex byte stream: from here on nobody else reads, writes or
 * listens to it. Pieces of one `write` leave in one system call where the stream can (`writev`).
 */
export function socketTransport(socket: Duplex): Transport {
  let opened = false
  return {
    framing: 'stream',
    open(handlers: TransportHandlers) {
      if (opened) throw new Error('this transport was opened before')
      opened = true
      let failure: Error | undefined
      socket.on('data', (chunk: Uint8Array) => handlers.data(chunk))
      socket.on('drain', () => handlers.drain())
      // 'close' always follows 'error'; it is the one that is reported.
      socket.on('error', (error) => {
        failure = error
      })
      socket.on('close', () => handlers.closed(failure))
      // A half-closed way in means that the other side is done; a duplex that allows half-open must be ended by us.
      socket.on('end', () => {
        if (!socket.writableEnded) socket.end()
      })
    },
    write(pieces) {
      if (!socket.writable) return true
      const [first] = pieces
      if (pieces.length === 1 && first !== undefined) return socket.write(first)
      socket.cork()
      let room = true
      for (const piece of pieces) room = socket.write(piece)
      socket.uncork()
      return room && !socket.writableNeedDrain
    },
    end() {
      if (!socket.writableEnded) socket.end()
    },
    destroy() {
      socket.destroy()
    },
  }
}
