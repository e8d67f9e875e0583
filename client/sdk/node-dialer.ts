/**
 * Dials the daemon's Unix socket and watches for its coming back. The only file of the SDK that needs Node; it is loaded when
 * no URL is given.
 *
 * Races: a socket may appear between a failed dial and the start of watching; the connection's first retry, at once, sees it.
 * The watched folder may be missing or be removed: then the nearest existing parent is watched until it is back.
 */
import { existsSync, type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import { type Environment, resolvePlaces } from '../../protocol/places.ts'
import { dial } from '../../protocol/wire/dial.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import type { Dialer } from './dialer.ts'

export interface NodeDialerOptions {
  /** Path to use instead of the computed one. */
  readonly socket?: string | undefined
  readonly env?: Environment | undefined
}

export function nodeDialer(options: NodeDialerOptions = {}): Dialer {
  const socket = options.socket ?? resolvePlaces(options.env).socket
  return {
    place: socket,
    pid: process.pid,
    async dial(signal, take) {
      await checkOwner(socket)
      return take(socketTransport(await dial(socket, signal)))
    },
    watch: (appeared) => watchFor(socket, appeared),
    resolvePath: (path) => resolve(path),
  }
}

/** A socket that another user put there is not our daemon, whatever it says. */
async function checkOwner(socket: string): Promise<void> {
  const uid = process.getuid?.()
  if (uid === undefined) return
  const found = await stat(socket)
  if (found.uid === uid) return
  throw new RoomdError(
    'forbidden',
    `${socket} belongs to user ${found.uid}, not to you (${uid}): it is not dialled. Remove it or set ROOMD_SOCKET`,
  )
}

function watchFor(socket: string, appeared: () => void): () => void {
  let watcher: FSWatcher | null = null
  let stopped = false

  function begin(): void {
    watcher?.close()
    watcher = null
    if (stopped) return
    let folder = dirname(socket)
    while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder)
    const watched = folder
    try {
      watcher = watch(watched, () => {
        if (existsSync(socket)) appeared()
        else if (watched !== dirname(socket) || !existsSync(watched)) begin()
      })
    } catch {
      // The folder went away between looking and watching, or the system has no more watches: retries by time go on.
      return
    }
    watcher.on('error', begin)
  }

  begin()
  // A watch that cannot be had must not let the process end while calls wait for the daemon.
  const hold = setInterval(() => {
    if (!watcher) begin()
  }, 5_000)
  return () => {
    stopped = true
    clearInterval(hold)
    watcher?.close()
    watcher = null
  }
}
