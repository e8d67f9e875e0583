/** What is loaded while the kernel starts: parses the launch, then runs the host with the kind of kernel that it names. */
import { systemClock } from '../../protocol/clock.ts'
import { GATEWAY_TOKEN, HostLaunch, type RemoteLaunch } from '../../protocol/kernel-host.ts'
import { OWN } from './conversation.ts'
import type { KernelFolder } from './folder.ts'
import { KernelHost } from './host.ts'
import { writeHostRecord } from './host-record.ts'
import { adoptKernelProcess } from './kernel-process.ts'
import type { KernelSide } from './kernel-side.ts'
import { type Launched, launchOnTcp } from './launch.ts'

/** `early`: the kernel that main.ts has already started. */
export async function runHost(
  folder: KernelFolder,
  text: string,
  early: Launched | null,
  log: (message: string) => void,
): Promise<void> {
  const launch = HostLaunch.parse(JSON.parse(text))
  const side = launch.remote
    ? await remoteSide(folder, launch, launch.remote, log)
    : await localSide(folder, launch, early)
  new KernelHost(folder, launch, side, systemClock, log)
}

/** ZeroMQ is loaded for kernels of this machine only, and the WebSocket for the others. */
async function localSide(
  folder: KernelFolder,
  launch: HostLaunch,
  early: Launched | null,
): Promise<KernelSide> {
  const { localKernel, readConnection } = await import('./local-kernel.ts')
  if (launch.adopt === undefined)
    return localKernel(folder, launch, early ?? (await launchOnTcp(folder, launch)))
  const { pid, pid_started: started } = launch.adopt
  return localKernel(folder, launch, {
    info: readConnection(folder),
    logStart: 0,
    process: adoptKernelProcess({ pid, started }, launch.kernel_id, systemClock),
  })
}

async function remoteSide(
  folder: KernelFolder,
  launch: HostLaunch,
  remote: RemoteLaunch,
  log: (message: string) => void,
): Promise<KernelSide> {
  const { remoteKernel } = await import('./remote/remote-kernel.ts')
  const token = process.env[GATEWAY_TOKEN] ?? null
  // Nothing that we start or write shall have it by accident.
  delete process.env[GATEWAY_TOKEN]
  const record = (kernelId: string | null, session: string | null): void =>
    writeHostRecord(folder, launch, null, { kernel_id: kernelId, session })
  record(remote.kernel_id, remote.kernel_session)
  return remoteKernel({
    clock: systemClock,
    launch: remote,
    token,
    session: launch.kernel_id,
    ownPrefix: OWN,
    record,
    log,
  })
}
