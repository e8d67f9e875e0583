/**
 * Where a kernel's files lie. Its own folder, with all that adoption needs, is `<state>/kernels/<id>`. Sockets go to the short
 * `<state>/k/<first 8 of the id>`, because a socket's path may have 107 bytes only; where even that does not fit, to the same
 * place below the shared runtime folder.
 */
import { dirname, join } from 'node:path'
import type { KernelId } from '../../protocol/ids.ts'
import { fittingSocketPath, type Places } from '../../protocol/places.ts'

export interface KernelPlaces {
  readonly folder: string
  /** Socket of the kernel's host. */
  readonly socket: string
  /** Folder of the kernel's ipc endpoints, `k-1` to `k-5`. */
  readonly ipc: string
}

export function kernelPlaces(places: Places, id: KernelId): KernelPlaces {
  const short = id.slice(0, 8)
  // One name decides for both, so that they lie together; `k-5` is as long as any of them.
  const longest = fittingSocketPath(
    join(places.state, 'k', short, 'k-5'),
    places.home,
    join('k', short, 'k-5'),
  )
  const sockets = dirname(longest)
  return { folder: join(kernelsFolder(places), id), socket: join(sockets, 's'), ipc: sockets }
}

/** Holds one folder per kernel. */
export function kernelsFolder(places: Places): string {
  return join(places.state, 'kernels')
}
