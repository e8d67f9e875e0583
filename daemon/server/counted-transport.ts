/** Counts what passes through a transport, for `/metrics`. */
import type { Transport } from '../../protocol/wire/transport.ts'
import { measures } from '../measures.ts'

export function countedTransport(transport: Transport, kind: 'unix' | 'websocket'): Transport {
  const { bytes } = measures
  const into = `${kind} in`
  const out = `${kind} out`
  measures.accepted.add(kind)
  return {
    framing: transport.framing,
    open(handlers) {
      transport.open({
        data(piece) {
          bytes.add(into, piece.length)
          handlers.data(piece)
        },
        drain: () => handlers.drain(),
        closed: (error) => handlers.closed(error),
      })
    },
    write(pieces) {
      let total = 0
      for (const piece of pieces) total += piece.length
      bytes.add(out, total)
      return transport.write(pieces)
    },
    end: () => transport.end(),
    destroy: () => transport.destroy(),
  }
}
