/** The child as its parent sees it: lines of stdout, and how it ends. */
import { spawn } from 'node:child_process'
import { programFile } from '../../protocol/programs.ts'
import type { TestHome } from '../support/home.ts'
import { LineReader } from '../support/line-reader.ts'

export interface RawChild {
  readonly pid: number
  readonly stdout: LineReader
  readonly stderr: LineReader
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  send(message: Record<string, unknown>): void
  /** Answer to a request; notifications before it are skipped. */
  request(id: number, method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>
  closeStdin(): void
  closeStdout(): void
}

/** Started and initialized. */
export async function startRaw(
  home: TestHome,
  options: { env?: Record<string, string>; args?: readonly string[]; command?: string } = {},
): Promise<RawChild> {
  const { env = {}, command = process.execPath } = options
  const args = options.args ?? [programFile('roomd'), 'mcp', '--child']
  const child = spawn(command, [...args], {
    env: { ...home.env, ...env },
    cwd: home.work,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.on('error', () => {})
  const stdout = new LineReader(child.stdout)
  const stderr = new LineReader(child.stderr)
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, name) => resolve({ code, signal: name }))
  })
  const raw: RawChild = {
    pid: child.pid ?? 0,
    stdout,
    stderr,
    exited,
    send(message) {
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
    },
    async request(id, method, params = {}) {
      raw.send({ id, method, params })
      for (;;) {
        const message = JSON.parse(await stdout.next())
        if (message.id === id) return message
      }
    },
    closeStdin: () => child.stdin.end(),
    closeStdout: () => child.stdout.destroy(),
  }
  await raw.request(1, 'initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'raw', version: '1' },
  })
  raw.send({ method: 'notifications/initialized' })
  return raw
}
