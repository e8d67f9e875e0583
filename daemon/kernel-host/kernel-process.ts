/**
 * The kernel's process: started in a session and group of its own, or adopted from a host that died. Owns signals to it and
 * the knowledge of its end. A started process is our child, so its exit is an event; an adopted one is watched by pid and
 * start time, at once when its sockets close (`check`), else every half second.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Clock } from '../../protocol/clock.ts'
import { identify, isAlive, type ProcessIdentity } from './process-identity.ts'
import { killTree, signalGroup, signalTree } from './process-tree.ts'

export interface KernelExit {
  readonly code: number | null
  readonly signal: string | null
  /** Set when it could not be started at all. */
  readonly error?: string
  /** A remote kernel: all there is to say of its end. */
  readonly reason?: string
}

export interface KernelProcess {
  /** null when it could not be started, and for a remote kernel. */
  readonly identity: ProcessIdentity | null
  readonly exited: Promise<KernelExit>
  readonly gone: boolean
  readonly stopped: boolean
  /** To the process group, as Ctrl-C in a terminal. A stopped group is continued first. A promise: rejects when it was not passed on. */
  interrupt(): void | Promise<void>
  /** SIGSTOP to the group: nothing is printed until `resume`. Without effect where the platform has no such signal. */
  stop(): void
  resume(): void
  /** To the whole tree. */
  terminate(): void
  /** SIGKILL to the whole tree, also to what is left of it after the kernel's own end. */
  kill(): void
  /** Looks whether an adopted process still lives. */
  check(): void
}

const WATCH_MS = 500

/** Starts the kernel. Its stdin is empty; what it writes to its own stdout and stderr goes to `log`. */
export function startKernelProcess(launch: {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  readonly log: string
  readonly kernelId: string
}): KernelProcess {
  const [program = '', ...args] = launch.argv
  const log = openSync(launch.log, 'a', 0o600)
  let child: ChildProcess
  try {
    // `detached` is setsid: session and group of its own.
    child = spawn(program, args, {
      cwd: launch.cwd,
      env: launch.env,
      detached: true,
      stdio: ['ignore', log, log],
    })
  } finally {
    closeSync(log)
  }
  const exited = new Promise<KernelExit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.once('error', (error) => {
      if (child.pid === undefined) resolve({ code: null, signal: null, error: error.message })
    })
  })
  return controlled(child.pid === undefined ? null : identify(child.pid), launch.kernelId, exited, () => {})
}

/** Takes over a running kernel that is not our child. Its exit code cannot be known. */
export function adoptKernelProcess(identity: ProcessIdentity, kernelId: string, clock: Clock): KernelProcess {
  let finish: (exit: KernelExit) => void = () => {}
  const exited = new Promise<KernelExit>((resolve) => {
    finish = resolve
  })
  let over = false
  const check = (): void => {
    if (over || isAlive(identity)) return
    over = true
    finish({ code: null, signal: null })
  }
  const watch = (): void => {
    check()
    if (!over) clock.after(WATCH_MS, watch)
  }
  watch()
  return controlled(identity, kernelId, exited, check)
}

function controlled(
  identity: ProcessIdentity | null,
  kernelId: string,
  exited: Promise<KernelExit>,
  check: () => void,
): KernelProcess {
  let gone = identity === null
  let stopped = false
  void exited.then(() => {
    gone = true
  })
  const running = (): ProcessIdentity | null => (gone ? null : identity)
  const resume = (): void => {
    const target = running()
    stopped = false
    if (target !== null && process.platform !== 'win32') signalGroup(target, 'SIGCONT')
  }
  return {
    identity,
    exited,
    check,
    get gone() {
      return gone
    },
    get stopped() {
      return stopped
    },
    interrupt() {
      if (stopped) resume()
      const target = running()
      if (target !== null) signalGroup(target, 'SIGINT')
    },
    stop() {
      const target = running()
      if (stopped || target === null || process.platform === 'win32') return
      stopped = signalGroup(target, 'SIGSTOP')
    },
    resume,
    terminate() {
      if (stopped) resume()
      const target = running()
      if (target !== null) signalTree(target, kernelId, 'SIGTERM')
    },
    kill() {
      if (identity !== null) killTree(identity, kernelId)
    },
  }
}
