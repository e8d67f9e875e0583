/** The proxy as a process of its own, with scripted children behind it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { endTree } from '../../support/processes.ts'
import { until } from '../../support/until.ts'
import { type Plan, type Sent, type Start, script, TOOLS } from './bench.ts'

export interface ProxyProcess {
  readonly process: ChildProcess
  readonly pid: number
  readonly folder: string
  /** Whole lines of stdout, as they are. */
  readonly lines: string[]
  stderr: string
  readonly starts: Start[]
  write(text: string | Buffer): void
  send(message: object): void
  answer(id: string | number): Promise<Sent>
  /** initialize, initialized and one call: a child is there. */
  greet(): Promise<void>
  release(name: string): void
}

export interface ProcessOptions {
  readonly plan?: Plan
  readonly env?: Record<string, string>
  /** Makes what starts the proxy; default: this process. */
  readonly spawn?: (program: string, env: NodeJS.ProcessEnv) => ChildProcess
}

/** Runs `use` with a proxy process and ends whatever is left of it. */
export async function withProxyProcess(
  use: (proxy: ProxyProcess) => Promise<void>,
  options: ProcessOptions = {},
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-mcp-process-'))
  const program = join(folder, 'roomd.js')
  await build({
    entryPoints: [fileURLToPath(new URL('./entry.ts', import.meta.url))],
    outfile: program,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'silent',
  })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'plan.json'), JSON.stringify({ tools: TOOLS, ...options.plan }))
  writeFileSync(
    join(folder, 'mcp-tools.json'),
    JSON.stringify({
      serverInfo: { name: 'roomd', title: 'roomd 1.0.0', version: '1.0.0' },
      capabilities: {},
      instructions: 'read this first',
      tools: TOOLS,
    }),
  )
  const env = { ...process.env, SCRIPT: folder, SCRIPTED_CHILD: script, NODE_OPTIONS: '', ...options.env }
  const start =
    options.spawn ??
    ((file, variables) =>
      spawn(process.execPath, [file], { env: variables, stdio: ['pipe', 'pipe', 'pipe'] }))
  const child = start(program, env)
  const pid = child.pid
  if (pid === undefined) throw new Error('the proxy could not be started')
  const lines: string[] = []
  let rest = ''
  const proxy: ProxyProcess = {
    process: child,
    pid,
    folder,
    lines,
    stderr: '',
    get starts() {
      return readStarts(folder)
    },
    write: (text) => {
      child.stdin?.write(text)
    },
    send: (message) => proxy.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`),
    answer: (id) =>
      until(
        `an answer to ${id}`,
        () => {
          const found = lines.find(
            (line) => line.includes(`"id":${JSON.stringify(id)},`) && !line.includes('"method"'),
          )
          return found === undefined ? undefined : (JSON.parse(found) as Sent)
        },
        {
          detail: () => `${lines.map((line) => line.slice(0, 300)).join('\n')}\n${proxy.stderr.slice(-3000)}`,
        },
      ),
    async greet() {
      const clientInfo = { name: 'test', version: '1' }
      proxy.send({
        id: 'hello',
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo },
      })
      await proxy.answer('hello')
      proxy.send({ method: 'notifications/initialized' })
      proxy.send({ id: 'first', method: 'tools/call', params: { name: 'look', arguments: {} } })
      await proxy.answer('first')
    },
    release: (name) => writeFileSync(join(folder, name), ''),
  }
  child.stdin?.on('error', () => {})
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    lines.push(...parts)
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    proxy.stderr += text
  })
  try {
    await use(proxy)
  } finally {
    await endTree(pid)
    for (const { pid: left } of proxy.starts) await endTree(left)
    rmSync(folder, { recursive: true, force: true })
  }
}

function readStarts(folder: string): Start[] {
  try {
    const text = readFileSync(join(folder, 'starts'), 'utf8')
    // Whole lines only: a child may be writing the next one.
    return text
      .slice(0, text.lastIndexOf('\n') + 1)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Start)
  } catch {
    // No child was started yet.
    return []
  }
}
