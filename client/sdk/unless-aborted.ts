/** Lets a caller leave a wait that others share: the wait itself goes on. */
import { RoomdError } from '../../protocol/errors.ts'

/** As `promise`, or rejects with `client_aborted` when the signal aborts before. */
export async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  what: string,
): Promise<T> {
  if (!signal) return promise
  let abort = () => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    abort = () => reject(new RoomdError('client_aborted', `${what} was aborted by the caller`))
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
