/**
 * `host.json` in the kernel's folder: who holds the kernel. Written as soon as the kernel's process exists, by Node's own means
 * only, so that a host that fails right after leaves a kernel that can be found. Readers: daemon/kernels/host-records.ts.
 */
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import { replaceFile } from '../../protocol/small-files.ts'
import { VERSION } from '../../protocol/version.ts'
import type { KernelFolder } from './folder.ts'
import { identify, type ProcessIdentity } from './process-identity.ts'

export interface HostRecord {
  readonly nonce: string
  readonly host: ProcessIdentity
  /** null: the kernel could not be started. */
  readonly kernel: ProcessIdentity | null
  readonly socket: string
  readonly version: string
  /** A kernel at a gateway, in place of a process: what a new host needs to find it. `kernel_id` is null before it has started. */
  readonly remote?: RemoteRecord
}

export interface RemoteRecord {
  readonly kernel_id: string | null
  readonly session: string | null
}

export function writeHostRecord(
  folder: KernelFolder,
  launch: HostLaunch,
  kernel: ProcessIdentity | null,
  remote?: RemoteRecord,
): void {
  const { nonce, socket } = launch
  const record: HostRecord = {
    nonce,
    host: identify(process.pid),
    kernel,
    socket,
    version: VERSION,
    ...(remote === undefined ? {} : { remote }),
  }
  replaceFile(folder.host, JSON.stringify(record), { outlives: 'process' })
}
