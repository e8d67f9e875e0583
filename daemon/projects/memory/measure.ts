/**
 * How much memory kernels use, as proportional set size: pages that several processes share count once between them, so that the sum is
 * what ending them would give back. One look reads the table of processes once and then each process that belongs to a kernel. What
 * cannot be read is unknown, never zero.
 */
import { readFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import type { NotebookId } from '../../../protocol/ids.ts'
import { type ProcessIdentity, residentMemory } from '../../kernel-host/process-identity.ts'
import { treeOf } from '../../kernel-host/process-tree.ts'

export interface Measured {
  readonly notebookId: NotebookId
  /** Bytes; null: could not be measured. */
  readonly bytes: number | null
}

/** One look at all kernels. Acted upon at most once. */
export interface Snapshot {
  readonly kernels: readonly Measured[]
  /** Of those that could be measured. */
  readonly total: number
}

export interface KernelProcess {
  readonly notebookId: NotebookId
  readonly process: ProcessIdentity
}

export async function measure(kernels: readonly KernelProcess[]): Promise<Snapshot> {
  const measured: Measured[] = []
  for (const { notebookId, process } of kernels)
    measured.push({ notebookId, bytes: await treeBytes(process) })
  return { kernels: measured, total: measured.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0) }
}

async function treeBytes(root: ProcessIdentity): Promise<number | null> {
  let total = 0
  let any = false
  for (const { pid } of treeOf(root)) {
    const bytes = await processBytes(pid)
    if (bytes === null) continue
    total += bytes
    any = true
  }
  return any ? total : null
}

async function processBytes(pid: number): Promise<number | null> {
  if (process.platform !== 'linux') return residentMemory(pid)
  try {
    const text = await readFile(`/proc/${pid}/smaps_rollup`, 'latin1')
    const kilobytes = /^Pss:\s+(\d+) kB/m.exec(text)?.[1]
    return kilobytes === undefined ? residentMemory(pid) : Number(kilobytes) * 1024
  } catch {
    // Gone meanwhile, or not ours to read: the resident size says more than nothing.
    return residentMemory(pid)
  }
}

/** The line: what was set, never more than the machine has; else half of it. */
export function budgetOf(setting: number | null, machine = totalmem()): number {
  if (!(machine > 0)) return Number.POSITIVE_INFINITY
  return setting === null ? Math.floor(machine / 2) : Math.min(setting, machine)
}
