/**
 * How a Yjs connection is closed. Codes 4400 to 4499 tell y-websocket's provider not to come back by itself (it then emits
 * `closed`); after any other code it comes back and offers what it still has.
 */
import type { Close } from '../../protocol/channels.ts'
import type { RoomdError } from '../../protocol/errors.ts'

/** A close frame holds so many bytes of reason. */
const MAX_REASON = 123
const RESTARTS = 1012
const TRY_AGAIN = 1013
const CLOSED = 4410

export function closeCodeOf(error: RoomdError): number {
  const { code } = error.toWire()
  switch (code) {
    case 'unauthorized':
      return 4401
    case 'forbidden':
      return 4403
    case 'not_found':
    case 'notebook_unavailable':
      return 4404
    case 'sync_failed':
      return error.retryable ? TRY_AGAIN : 4409
    case 'invalid_argument':
      return 4400
    case 'too_large':
      return 1009
    case 'shutting_down':
    case 'daemon_replaced':
      return RESTARTS
    case 'internal':
      return 1011
    default:
      return TRY_AGAIN
  }
}

/** The room detached this peer. `stopping`: because the daemon goes away. */
export function closeCodeOfDetach(close: Close, stopping: boolean): number {
  return stopping ? RESTARTS : close.code === 'closed' ? CLOSED : TRY_AGAIN
}

/** As much of the text as a close frame takes, in whole characters. */
export function closeReason(text: string): string {
  if (Buffer.byteLength(text) <= MAX_REASON) return text
  let cut = ''
  for (const character of text) {
    if (Buffer.byteLength(cut) + Buffer.byteLength(character) > MAX_REASON - 3) break
    cut += character
  }
  return `${cut}…`
}
