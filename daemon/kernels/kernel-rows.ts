/** The store's rows of kernels: written before a host is spawned, so that a daemon that dies in between finds what it began. */
import { encode } from '../../protocol/codec.ts'
import { KernelId, NotebookId } from '../../protocol/ids.ts'
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import type { Statement, Store } from '../store/store.ts'

export interface KernelRow {
  readonly kernelId: KernelId
  readonly notebookId: NotebookId
  readonly name: string
  readonly language: string
  readonly nonce: string
  readonly socket: string
  readonly hostPid: number | null
  readonly pid: number | null
  readonly pidStarted: number | null
  readonly machineBoot: string
  /** Host events up to here are durable in the store. */
  readonly consumedSeq: number
  readonly startedAt: number
}

interface Stored {
  kernel_id: string
  notebook_id: string
  name: string
  language: string
  nonce: string
  socket: string
  host_pid: number | null
  pid: number | null
  pid_started: number | null
  machine_boot: string
  consumed_seq: number
  started_at: number
}

export function insertKernel(row: KernelRow, launch: HostLaunch, bornStandby = false): Statement {
  return {
    sql: `INSERT INTO kernels (kernel_id, notebook_id, name, language, nonce, socket, machine_boot, launch, started_at,
            born_standby)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    values: [
      row.kernelId,
      row.notebookId,
      row.name,
      row.language,
      row.nonce,
      row.socket,
      row.machineBoot,
      encode(launch),
      row.startedAt,
      bornStandby ? 1 : 0,
    ],
  }
}

export function updateHost(kernelId: KernelId, nonce: string, hostPid: number | null): Statement {
  return {
    sql: 'UPDATE kernels SET nonce = ?, host_pid = ? WHERE kernel_id = ?',
    values: [nonce, hostPid, kernelId],
  }
}

/** A kernel at a gateway outlives this machine's boot; its new host's pid belongs to the present one. */
export function updateBoot(kernelId: KernelId, machineBoot: string): Statement {
  return { sql: 'UPDATE kernels SET machine_boot = ? WHERE kernel_id = ?', values: [machineBoot, kernelId] }
}

export function updatePid(kernelId: KernelId, pid: number | null, started: number | null): Statement {
  return {
    sql: 'UPDATE kernels SET pid = ?, pid_started = ? WHERE kernel_id = ?',
    values: [pid, started, kernelId],
  }
}

export function deleteKernel(kernelId: KernelId): Statement {
  return { sql: 'DELETE FROM kernels WHERE kernel_id = ?', values: [kernelId] }
}

/** Oldest first. */
export function readKernels(store: Store): KernelRow[] {
  return store
    .all<Stored>(
      `SELECT kernel_id, notebook_id, name, language, nonce, socket, host_pid, pid, pid_started, machine_boot, consumed_seq,
              started_at FROM kernels ORDER BY started_at`,
    )
    .map((row) => ({
      kernelId: KernelId.parse(row.kernel_id),
      notebookId: NotebookId.parse(row.notebook_id),
      name: row.name,
      language: row.language,
      nonce: row.nonce,
      socket: row.socket,
      hostPid: row.host_pid,
      pid: row.pid,
      pidStarted: row.pid_started,
      machineBoot: row.machine_boot,
      consumedSeq: row.consumed_seq,
      startedAt: row.started_at,
    }))
}
