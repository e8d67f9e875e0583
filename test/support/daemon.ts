/** A real daemon process (`dist/daemon.cjs`) for tests. Needs `npm run build`, which `npm test` runs. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { programFile } from '../../protocol/programs.ts'
import type { TestHome } from './home.ts'
import { LineReader } from './line-reader.ts'
import { gone, signal } from './processes.ts'
import { until } from './until.ts'

export interface TestDaemon {
  readonly pid: number
  /** What it wrote to stdout and stderr. */
  readonly output: { readonly stdout: LineReader; readonly stderr: LineReader }
  /** Resolves when the process has ended. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** SIGKILL; resolves when it is gone. Hosts and kernels go on. */
  kill9(): Promise<void>
  /** SIGTERM, the orderly way; resolves when it is gone. */
  stop(): Promise<void>
}

/** Starts a daemon in the home and resolves when it answers on its socket. Rejects with its output if it ends before. */
export async function startDaemon(
  home: TestHome,
  variables: Record<string, string> = {},
): Promise<TestDaemon> {
  const child = spawn(process.execPath, [programFile('daemon')], {
    env: { ...home.env, ...variables },
    cwd: home.work,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: new LineReader(child.stdout), stderr: new LineReader(child.stderr) }
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, name) => resolve({ code, signal: name }))
  })
  let ended = false
  exited.then(
    () => {
      ended = true
    },
    () => {
      ended = true
    },
  )
  const pid = child.pid
  if (pid === undefined) {
    await exited
    throw new Error('the daemon process could not be started')
  }
  const said = () => `daemon said:\n${output.stdout.text}\n${output.stderr.text}`
  await until(
    'the daemon to answer',
    async () => {
      if (ended) return 'ended'
      return writtenPid(home) === pid && (await answers(home.places.socket)) && 'answers'
    },
    { detail: said },
  )
  if (ended) throw new Error(`the daemon ended while it started: ${JSON.stringify(await exited)}\n${said()}`)
  return {
    pid,
    output,
    exited,
    async kill9() {
      signal(pid, 'SIGKILL')
      await gone(pid)
    },
    async stop() {
      signal(pid, 'SIGTERM')
      await gone(pid)
    },
  }
}

/** The pid in `daemon.json`, undefined while there is none. */
export function writtenPid(home: TestHome): number | undefined {
  if (!existsSync(home.places.daemonJson)) return undefined
  return (JSON.parse(readFileSync(home.places.daemonJson, 'utf8')) as { pid?: number }).pid
}

/** Whether something speaks our protocol at the socket: it answers the 8 bytes of the preamble. */
export function answers(socketPath: string, timeout = 3000): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath)
    const finish = (value: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(value)
    }
    const timer = setTimeout(() => finish(false), timeout)
    socket.on('connect', () => socket.write(Buffer.from([0x52, 0x4f, 0x4f, 0x4d, 1, 1, 0, 0])))
    socket.on('data', (data) => finish(data.subarray(0, 4).toString('latin1') === 'ROOM'))
    socket.on('error', () => finish(false))
    socket.on('close', () => finish(false))
  })
}
