/**
 * Listens on the Unix socket. Owns the socket file while it listens; hands each accepted socket on and knows nothing of frames.
 *
 * The file is 0600 from the moment it exists: the umask is set around the bind, which `listen` does synchronously. A socket file
 * that nobody answers at is what a killed daemon left; one that answers, or a file of any other kind, is not ours and stays.
 */
import { lstatSync, unlinkSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { RoomdError } from '../../protocol/errors.ts'

/** Connects that wait to be accepted: a thousand children redial at once after a daemon's death. */
const BACKLOG = 4096

export interface Listener {
  readonly path: string
  /** Stops accepting and removes the socket file; sockets already accepted stay. Idempotent. */
  close(): Promise<void>
}

/**
 * Starts listening at `path`, for the owner only. The caller holds the daemon's lock. Throws RoomdError when something that is
 * not a dead daemon's socket is at the path, or when the address cannot be bound.
 */
export async function listenUnix(path: string, accepted: (socket: Socket) => void): Promise<Listener> {
  await removeStaleSocket(path)
  const server = createServer({ allowHalfOpen: false, pauseOnConnect: false, noDelay: true }, accepted)
  await bind(server, path)
  let closing: Promise<void> | undefined
  return {
    path,
    close() {
      // Node removes the file of a socket it bound. `close` waits for accepted sockets too; they are the connections' concern.
      closing ??= new Promise((resolve) => {
        server.close()
        server.unref()
        resolve()
      })
      return closing
    },
  }
}

function bind(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      reject(
        new RoomdError(
          'internal',
          `cannot listen on ${path}: ${error.message}; choose another path with ROOMD_SOCKET`,
        ),
      )
    })
    const umask = process.umask(0o177)
    try {
      server.listen({ path, backlog: BACKLOG }, () => {
        server.removeAllListeners('error')
        // An accept that fails (no descriptor left) costs one connect, never the daemon.
        server.on('error', () => undefined)
        resolve()
      })
    } finally {
      process.umask(umask)
    }
  })
}

async function removeStaleSocket(path: string): Promise<void> {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (!stats) return
  if (!stats.isSocket()) {
    throw new RoomdError(
      'conflict',
      `cannot listen on ${path}: something that is no socket is there; move it away or choose another path with ROOMD_SOCKET`,
    )
  }
  if (await someoneAnswers(path)) {
    throw new RoomdError(
      'conflict',
      `cannot listen on ${path}: a process outside this home answers there; choose another path with ROOMD_SOCKET`,
    )
  }
  unlinkSync(path)
}

/** Whether a process accepts connects at `path`: a full backlog (EAGAIN) counts as one. */
function someoneAnswers(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const probe = connect(path)
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ENOENT') resolve(false)
      else if (error.code === 'EAGAIN') resolve(true)
      else reject(new RoomdError('internal', `cannot look at ${path}: ${error.message}`))
    })
  })
}
