/** An HTTP request that is not served, and how that is told: status, headers, one JSON object as everywhere else. */
import { type RoomdError, toWireError, type WireError } from '../../protocol/errors.ts'

export class Refusal extends Error {
  readonly status: number
  readonly error: WireError

  constructor(status: number, error: RoomdError) {
    super(error.message)
    this.status = status
    this.error = error.toWire()
  }

  get headers(): Record<string, string> {
    return this.status === 401 ? { 'WWW-Authenticate': 'Bearer realm="roomd"' } : {}
  }

  get body(): string {
    return `${JSON.stringify({ error: this.error })}\n`
  }
}

/** The status of a failure that nobody foresaw as an answer. */
export function statusOf(thrown: unknown): number {
  switch (toWireError(thrown).code) {
    case 'unauthorized':
      return 401
    case 'forbidden':
      return 403
    case 'not_found':
    case 'notebook_unavailable':
      return 404
    case 'invalid_argument':
      return 400
    case 'shutting_down':
    case 'overloaded':
    case 'storage_full':
    case 'storage_failed':
      return 503
    default:
      return 500
  }
}
