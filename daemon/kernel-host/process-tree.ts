/**
 * A kernel and everything it started. The kernel leads a session of its own, so its children are found by session and group even after
 * they were handed to init, and by descent while it lives. What left session and parents is found by the mark that the kernel's
 * environment carries and everything started from it inherits (Linux). A service that a cell starts to outlive its kernel is
 * started without the mark: `env -u ROOMD_KERNEL_ID …`.
 */
import { readdirSync } from 'node:fs'
import { KERNEL_MARK } from '../../protocol/kernel-mark.ts'
import {
  carries,
  isAlive,
  kill,
  listed,
  type ProcessIdentity,
  type ProcessRow,
  PS_ALL,
  processRow,
} from './process-identity.ts'

/** Every process of the tree but the zombies, its root first if it lives. `kernelId`: what is marked with it belongs to the tree too. */
export function treeOf(root: ProcessIdentity, kernelId?: string): ProcessRow[] {
  const leader = processRow(root.pid)
  // Somebody else has our kernel's pid now: what carries that number as session or group is theirs.
  const reused = leader !== undefined && !sameProcess(leader, root)
  const rows = allProcesses().filter((row) => row.state !== 'Z' && row.state !== 'X')
  const members = new Set<number>()
  const mark = kernelId === undefined ? null : `${KERNEL_MARK}=${kernelId}`
  for (const row of rows) {
    const inSession = !reused && (row.pid === root.pid || row.session === root.pid || row.group === root.pid)
    if (inSession || (mark !== null && row.pid !== process.pid && carries(row.pid, mark)))
      members.add(row.pid)
  }
  const children = new Map<number, ProcessRow[]>()
  for (const row of rows) {
    const siblings = children.get(row.parent)
    if (siblings === undefined) children.set(row.parent, [row])
    else siblings.push(row)
  }
  const pending = [...members]
  for (let pid = pending.pop(); pid !== undefined; pid = pending.pop()) {
    for (const child of children.get(pid) ?? []) {
      if (members.has(child.pid)) continue
      members.add(child.pid)
      pending.push(child.pid)
    }
  }
  return rows
    .filter((row) => members.has(row.pid))
    .sort((a, b) => Number(b.pid === root.pid) - Number(a.pid === root.pid))
}

/** Signals every process of the tree. */
export function signalTree(root: ProcessIdentity, kernelId: string, signal: NodeJS.Signals): void {
  for (const row of treeOf(root, kernelId)) kill(row.pid, signal)
}

/** Kills what is left until nothing is; a process that is just forking is found in the next round. */
export function killTree(root: ProcessIdentity, kernelId?: string): void {
  for (let round = 0; round < 5; round++) {
    const rows = treeOf(root, kernelId)
    if (rows.length === 0) return
    for (const row of rows) kill(row.pid, 'SIGKILL')
  }
}

/** Signals the kernel's process group, as a terminal would. false: the kernel is gone. */
export function signalGroup(root: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(root)) return false
  return process.platform === 'win32' ? kill(root.pid, signal) : kill(-root.pid, signal)
}

function sameProcess(row: ProcessRow, identity: ProcessIdentity): boolean {
  return identity.started === null || row.started === null || row.started === identity.started
}

function allProcesses(): ProcessRow[] {
  if (process.platform === 'win32') return []
  if (process.platform !== 'linux') return listed(PS_ALL)
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => processRow(Number(name)))
    .filter((row) => row !== undefined)
}
