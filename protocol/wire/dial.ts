/** Connecting to a Unix socket. Node only. */
import { connect, type Socket } from 'node:net'

/** Short enough to be at once, long enough not to burn a core while a stopped listener holds a full backlog. */
const RETRY_MS = 1

/**
 * A connected socket, or the system's error (`ENOENT`: no socket, `ECONNREFUSED`: nobody listens). A connect that is refused
 * because the listener's backlog is full (`EAGAIN`) is retried at once, until `signal` aborts.
 */
export function dial(path: string, signal?: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const attempt = (): void => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const socket = connect({ path })
      const abort = (): void => {
        settle()
        socket.destroy()
        reject(signal?.reason)
      }
      const failed = (error: NodeJS.ErrnoException): void => {
        settle()
        socket.destroy()
        if (error.code === 'EAGAIN') setTimeout(attempt, RETRY_MS)
        else reject(error)
      }
      const connected = (): void => {
        settle()
        resolve(socket)
      }
      const settle = (): void => {
        signal?.removeEventListener('abort', abort)
        socket.off('error', failed)
        socket.off('connect', connected)
        socket.on('error', ignoreAfterSettling)
      }
      signal?.addEventListener('abort', abort, { once: true })
      socket.once('error', failed)
      socket.once('connect', connected)
    }
    attempt()
  })
}

// The transport reports errors by 'close'; between dialling and taking the socket over, an error must not be uncaught.
function ignoreAfterSettling(): void {}
