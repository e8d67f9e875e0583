/** A kernel of this machine, reached by ZeroMQ. */
import { readFileSync, rmSync } from 'node:fs'
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import { Channels } from './channels.ts'
import type { ConnectionInfo } from './connection-file.ts'
import type { KernelFolder } from './folder.ts'
import type { KernelSide } from './kernel-side.ts'
import { type Launched, launchOnTcp, PortComplaint, tryAgainOnTcp } from './launch.ts'

/** `attempt`: counts launches of this kernel, from 1. */
export function localKernel(
  folder: KernelFolder,
  launch: HostLaunch,
  { info, process, logStart }: Launched,
  attempt = 1,
): KernelSide {
  const complaint = new PortComplaint(folder.kernelLog, logStart)
  return {
    process,
    remote: false,
    // ipykernel may hang when its interpreter ends for a port that is taken.
    stuck: () => info.transport === 'tcp' && complaint.stands(),
    channels: (handlers) => new Channels(info, launch.kernel_id, handlers),
    again: (lastLines) =>
      tryAgainOnTcp(info, attempt, lastLines)
        ? launchOnTcp(folder, launch).then((next) => localKernel(folder, launch, next, attempt + 1))
        : null,
    cleanUp() {
      if (info.transport !== 'ipc') return
      for (let port = 1; port <= 5; port++) rmSync(`${info.ip}-${port}`, { force: true })
    },
  }
}

/** Reads the connection file of a kernel that is to be adopted. Throws when it is no connection file of ours. */
export function readConnection(folder: KernelFolder): ConnectionInfo {
  const info: unknown = JSON.parse(readFileSync(folder.connection, 'utf8'))
  if (typeof info !== 'object' || info === null || !('key' in info) || !('transport' in info))
    throw new Error(`${folder.connection} is no connection file`)
  return info as ConnectionInfo
}
