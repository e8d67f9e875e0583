/**
 * One attempt to start the kernel: connection file, then process. Uses nothing but Node's own modules, so that it happens before
 * the rest of the host is loaded: the kernel starts while we do.
 */
import { statSync } from 'node:fs'
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import { KERNEL_MARK } from '../../protocol/kernel-mark.ts'
import { type ConnectionInfo, ipcConnection, tcpConnection, writeConnectionFile } from './connection-file.ts'
import { type KernelFolder, lastLines } from './folder.ts'
import { writeHostRecord } from './host-record.ts'
import { type KernelProcess, startKernelProcess } from './kernel-process.ts'

export interface Launched {
  /** Size of the kernel's log before it was started: what it says itself is behind. */
  readonly logStart: number
  readonly info: ConnectionInfo
  readonly process: KernelProcess
}

/** Starts on ipc at once. */
export function launchOnIpc(folder: KernelFolder, launch: HostLaunch): Launched {
  return launchWith(folder, launch, ipcConnection(launch.ipc_dir))
}

export async function launchOnTcp(folder: KernelFolder, launch: HostLaunch): Promise<Launched> {
  return launchWith(folder, launch, await tcpConnection())
}

function launchWith(folder: KernelFolder, launch: HostLaunch, info: ConnectionInfo): Launched {
  writeConnectionFile(folder.connection, info)
  const { argv, cwd, kernel_id: kernelId } = launch
  const env = { ...kernelEnvironment(process.env), [KERNEL_MARK]: kernelId }
  const logStart = statSync(folder.kernelLog, { throwIfNoEntry: false })?.size ?? 0
  const kernel = startKernelProcess({ argv, cwd, env, log: folder.kernelLog, kernelId })
  try {
    writeHostRecord(folder, launch, kernel.identity)
  } catch (error) {
    // A kernel that nobody could find would run for ever: the disk is full, or the folder was removed meanwhile.
    kernel.kill()
    throw error
  }
  return { info, process: kernel, logStart }
}

/** Set by who starts the host: the kernel's own NODE_OPTIONS, which must not be the host's. */
export const KERNEL_NODE_OPTIONS = 'ROOMD_KERNEL_NODE_OPTIONS'

/**
 * The host's environment is the kernel's, but for what would make a kernel end with its parent (JPY_PARENT_PID): a kernel
 * outlives its host.
 */
function kernelEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { JPY_PARENT_PID: _parent, [KERNEL_NODE_OPTIONS]: nodeOptions, ...rest } = env
  return nodeOptions === undefined ? rest : { ...rest, NODE_OPTIONS: nodeOptions }
}

const WRONG_TRANSPORT = /\bipc\b|transport|sockaddr|invalid argument|protocol not supported|bind|zmq/i
const PORT_TAKEN = /address already in use|EADDRINUSE|in use/i
/** Each takes as long as the kernel needs to come to its sockets; a program that takes ports by the hundred is outlasted. */
const TCP_ATTEMPTS = 12

/**
 * Whether a kernel that ended before it was ready deserves another attempt, on TCP: one that cannot do ipc gets one, and one
 * whose ports were taken in the meantime a dozen.
 */
export function tryAgainOnTcp(info: ConnectionInfo, attempt: number, lastLines: string): boolean {
  if (info.transport === 'ipc') return WRONG_TRANSPORT.test(lastLines)
  return attempt < TCP_ATTEMPTS && PORT_TAKEN.test(lastLines)
}

/** Whether it said that a port is taken and has said nothing since the last time it was asked. */
export class PortComplaint {
  readonly #path: string
  readonly #from: number
  #size = -1

  constructor(logPath: string, from: number) {
    this.#path = logPath
    this.#from = from
  }

  stands(): boolean {
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0
    const quiet = size === this.#size
    this.#size = size
    return quiet && size > this.#from && PORT_TAKEN.test(lastLines(this.#path, size - this.#from))
  }
}
