/**
 * Starts a kernel host: writes its launch.json, then a detached process whose environment is the kernel's. Where the daemon
 * itself is a systemd unit, the host gets a scope of its own, so that neither stopping the unit nor a lack of memory in it
 * touches kernels.
 */
import { execFile, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import { programFile } from '../../protocol/programs.ts'
import { replaceFile } from '../../protocol/small-files.ts'
import { kernelFolder } from '../kernel-host/folder.ts'
import { KERNEL_NODE_OPTIONS } from '../kernel-host/launch.ts'
import { identify, type ProcessIdentity } from '../kernel-host/process-identity.ts'
import type { Variables } from './environment.ts'

/** A host's heap is small, and it is one per kernel: the young generation need not be what a server's is. */
const NODE_FLAGS = ['--max-semi-space-size=4']
const SCOPE_CHECK_MS = 3_000

/** Throws when the process cannot be started. The host's own failures are in its `host.log`. */
export async function spawnHost(path: string, launch: HostLaunch, env: Variables): Promise<ProcessIdentity> {
  const folder = kernelFolder(path)
  mkdirSync(path, { recursive: true, mode: 0o700 })
  replaceFile(folder.launch, JSON.stringify(launch), { outlives: 'process' })
  const command = [process.execPath, ...NODE_FLAGS, programFile('kernel-host'), path]
  const [program = '', ...args] = (await scopesWork())
    ? [
        'systemd-run',
        '--user',
        '--scope',
        '--quiet',
        '--collect',
        `--unit=roomd-kernel-${launch.kernel_id}`,
        ...command,
      ]
    : command
  const log = openSync(folder.hostLog, 'a', 0o600)
  try {
    const child = spawn(program, args, {
      cwd: path,
      env: hostEnvironment(env),
      detached: true,
      stdio: ['ignore', log, log],
    })
    const pid = await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      if (child.pid !== undefined) resolve(child.pid)
    })
    // It outlives us; its end is noticed by its connection and its start time.
    child.unref()
    return identify(pid)
  } finally {
    closeSync(log)
  }
}

/** The user's NODE_OPTIONS are for the kernel, not for the host: they travel under another name. */
function hostEnvironment(env: Variables): Record<string, string> {
  const { NODE_OPTIONS, ...rest } = env
  return NODE_OPTIONS === undefined ? rest : { ...rest, [KERNEL_NODE_OPTIONS]: NODE_OPTIONS }
}

let scopes: Promise<boolean> | null = null

/** Asked once, and only where it matters: in a unit of the user's systemd. */
function scopesWork(): Promise<boolean> {
  scopes ??= inUserUnit()
    ? new Promise((resolve) => {
        execFile(
          'systemd-run',
          ['--user', '--scope', '--quiet', '--collect', 'true'],
          { timeout: SCOPE_CHECK_MS },
          (error) => resolve(error === null),
        )
      })
    : Promise.resolve(false)
  return scopes
}

function inUserUnit(): boolean {
  if (process.platform !== 'linux') return false
  try {
    return /user@\d+\.service\/.*\.service/.test(readFileSync('/proc/self/cgroup', 'utf8'))
  } catch {
    // No cgroups, no units.
    return false
  }
}
