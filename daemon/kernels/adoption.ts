/**
 * What a new daemon finds of the kernels that an earlier one started. A row is believed as far as processes with the recorded pid
 * and start time exist; the host then proves itself by its nonce (host-link.ts). A kernel that ended meanwhile but left events
 * that the store has not consumed is adopted all the same: a host tells its story to the end.
 */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { KernelId } from '../../protocol/ids.ts'
import { KernelId as KernelIdSchema } from '../../protocol/ids.ts'
import type { Places } from '../../protocol/places.ts'
import { kernelFolder } from '../kernel-host/folder.ts'
import { isAlive, type ProcessIdentity, signalProcess } from '../kernel-host/process-identity.ts'
import { killTree } from '../kernel-host/process-tree.ts'
import { lastSpooled } from '../kernel-host/spool.ts'
import type { HostTarget } from './host-link.ts'
import { readHostRecord } from './host-records.ts'
import { kernelPlaces, kernelsFolder } from './kernel-places.ts'
import type { KernelRow } from './kernel-rows.ts'

export type Finding =
  /** `target` may be a host that is dead: the link then has it replaced. */
  | { readonly kind: 'adopt'; readonly target: HostTarget; readonly process: ProcessIdentity | null }
  | { readonly kind: 'gone'; readonly reason: string }

export function lookAtRow(row: KernelRow, folderPath: string, machineBoot: string): Finding {
  const folder = kernelFolder(folderPath)
  const record = readHostRecord(folder)
  const sameBoot = row.machineBoot === machineBoot
  const kernel: ProcessIdentity | null =
    record?.kernel ?? (row.pid === null ? null : { pid: row.pid, started: row.pidStarted })
  const host: ProcessIdentity | null = record?.host ?? null
  // host.json may be a step ahead of the row or behind it; a host is ours when either names it, and it proves its nonce anyway.
  const target: HostTarget = {
    process: host ?? NOBODY,
    nonce: record?.nonce ?? row.nonce,
  }
  if (sameBoot && host !== null && isAlive(host)) return { kind: 'adopt', target, process: kernel }
  // Only the gateway knows whether its kernel lives, whatever happened to this machine: a new host asks it.
  if ((record?.remote?.kernel_id ?? null) !== null)
    return { kind: 'adopt', target: { ...target, process: NOBODY }, process: null }
  if (sameBoot && kernel !== null && isAlive(kernel)) return { kind: 'adopt', target, process: kernel }
  if (kernel !== null && lastSpooled(folder.spool) > row.consumedSeq)
    return { kind: 'adopt', target: { ...target, process: NOBODY }, process: kernel }
  if (kernel === null) return { kind: 'gone', reason: 'the daemon ended while it was starting the kernel' }
  return {
    kind: 'gone',
    reason: sameBoot
      ? 'the kernel process ended while the daemon was away'
      : 'the machine was started anew since',
  }
}

/** No process has this pid, so it is never alive. */
const NOBODY: ProcessIdentity = { pid: 0x7fff_ffff, started: 0 }

/**
 * Ends kernels of which the store knows nothing (a store that was restored from older bytes), and removes their folders. Only
 * processes that their own `host.json` names by pid and start time are touched. `spare`: the store lost rows in a recovery, so that
 * a kernel it does not know may well be somebody's: one that lives is left alone, and ends with its orphan grace.
 */
export function endUnknown(
  places: Places,
  known: ReadonlySet<KernelId>,
  spare: boolean,
  /** Before the files go: what else there is to end. */
  ending: (id: KernelId) => void,
  log: (message: string) => void,
): void {
  let names: string[]
  try {
    names = readdirSync(kernelsFolder(places))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  for (const name of names) {
    const id = KernelIdSchema.safeParse(name)
    if (!id.success || known.has(id.data)) continue
    const path = join(kernelsFolder(places), name)
    const record = readHostRecord(kernelFolder(path))
    const lives =
      record !== null && (isAlive(record.host) || (record.kernel !== null && isAlive(record.kernel)))
    if (spare && lives) {
      log(`kernel ${name} belongs to no room that is known, and the store has holes: left alone`)
      continue
    }
    log(`kernel ${name} belongs to no room: ending it`)
    if (record !== null) {
      signalProcess(record.host, 'SIGKILL')
      if (record.kernel !== null && isAlive(record.kernel)) killTree(record.kernel, id.data)
    }
    ending(id.data)
    removeKernelFiles(places, id.data)
  }
}

export function removeKernelFiles(places: Places, id: KernelId): void {
  const { folder, ipc } = kernelPlaces(places, id)
  rmSync(folder, { recursive: true, force: true })
  rmSync(ipc, { recursive: true, force: true })
}
