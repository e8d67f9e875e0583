/** What is loaded while the kernel starts: parses the launch, then runs the host. */
import { systemClock } from '../../protocol/clock.ts'
import { HostLaunch } from '../../protocol/kernel-host.ts'
import type { KernelFolder } from './folder.ts'
import { KernelHost, readConnection } from './host.ts'
import { adoptKernelProcess } from './kernel-process.ts'
import { type Launched, launchOnTcp } from './launch.ts'

/** `early`: the kernel that main.ts has already started. */
export async function runHost(
  folder: KernelFolder,
  text: string,
  early: Launched | null,
  log: (message: string) => void,
): Promise<void> {
  const launch = HostLaunch.parse(JSON.parse(text))
  const launched = early ?? (launch.adopt ? adopted(folder, launch.adopt) : await launchOnTcp(folder, launch))
  new KernelHost(folder, launch, launched, systemClock, log)
}

function adopted(folder: KernelFolder, kernel: NonNullable<HostLaunch['adopt']>): Launched {
  return {
    info: readConnection(folder),
    process: adoptKernelProcess({ pid: kernel.pid, started: kernel.pid_started }, systemClock),
  }
}
