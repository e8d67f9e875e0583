/** `roomd mcp`: from its start to the answer to `tools/list`, against a bare start of Node; and the memory of proxy and child. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { programFile } from '../../protocol/programs.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { LineReader } from '../support/line-reader.ts'
import { descendants, endTree } from '../support/processes.ts'
import { type Figure, figure, percentile } from './figure.ts'
import { MIB, proportionalSize } from './proportional-size.ts'

const STARTS = 30

export async function* benchMcp(): AsyncGenerator<Figure> {
  yield* await withHome(async (home) => {
    await startDaemon(home, { SHELL: '/bin/sh' })
    const times = { roomd: [] as number[], node: [] as number[] }
    // In turn, so that both see the same machine; the first of each reads the files.
    for (let i = 0; i <= STARTS; i++) {
      const node = await bareStart(home)
      const roomd = await untilToolsList(home)
      if (i === 0) continue
      times.node.push(node)
      times.roomd.push(roomd)
    }
    const figures: Figure[] = []
    const node = { name: 'node -e 0', value: percentile(times.node, 0.5) }
    figures.push(figure('mcp/tools-list', percentile(times.roomd, 0.5), 'ms', node, { max: 1.63 }))
    if (process.platform === 'linux')
      figures.push(figure('mcp/memory', await memory(home), 'MiB', null, { max: 90 }))
    return figures
  })
}

/** Milliseconds from the start of a Node that does nothing to its end. */
function bareStart(home: TestHome): Promise<number> {
  const start = performance.now()
  const child = spawn(process.execPath, ['-e', '0'], { env: home.env, stdio: 'ignore' })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => resolve(performance.now() - start))
  })
}

async function untilToolsList(home: TestHome): Promise<number> {
  const start = performance.now()
  const mcp = startMcp(home)
  await mcp.answer(2)
  const time = performance.now() - start
  await mcp.end()
  return time
}

/** Proxy and child with one notebook open, after a few calls: their proportional set size in MiB. */
async function memory(home: TestHome): Promise<number> {
  const mcp = startMcp(home)
  const call = (id: number, name: string, args: object) => {
    mcp.send({ id, method: 'tools/call', params: { name, arguments: args } })
    return mcp.answer(id)
  }
  await call(10, 'create_notebook', { path: 'bench.ipynb', kernel: 'javascript' })
  for (let i = 0; i < 20; i++) await call(20 + i, 'create_cell', { source: `${i} + ${i}`, and_run: true })
  const bytes = [mcp.pid, ...descendants(mcp.pid)].map(proportionalSize)
  if (bytes.length !== 2) throw new Error(`expected proxy and child, found ${bytes.length} processes`)
  await mcp.end()
  return bytes.reduce((sum, one) => sum + one, 0) / MIB
}

interface Mcp {
  readonly pid: number
  send(message: object): void
  /** Rejects when it ends, or answers an error. */
  answer(id: number): Promise<void>
  end(): Promise<void>
}

/** As a client starts it: `initialize` as 1 and `tools/list` as 2 are sent at once. */
function startMcp(home: TestHome): Mcp {
  const child: ChildProcessWithoutNullStreams = spawn(process.execPath, [programFile('roomd'), 'mcp'], {
    env: home.env,
    cwd: home.work,
    stdio: 'pipe',
  })
  const lines = new LineReader(child.stdout)
  const { pid } = child
  if (pid === undefined) throw new Error('roomd mcp could not be started')
  const send = (message: object) =>
    void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const clientInfo = { name: 'bench', version: '1' }
  send({
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo },
  })
  send({ method: 'notifications/initialized' })
  send({ id: 2, method: 'tools/list', params: {} })
  return {
    pid,
    send,
    async answer(id) {
      for (;;) {
        const message = JSON.parse(await lines.next(undefined, 60_000)) as {
          id?: number
          error?: unknown
          result?: { isError?: boolean }
        }
        if (message.id !== id) continue
        if (message.error || message.result?.isError) throw new Error(JSON.stringify(message))
        return
      }
    },
    end: () => endTree(pid),
  }
}
