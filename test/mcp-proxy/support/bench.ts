/** A proxy in this process with scripted children in processes of their own, and a client that remembers everything it was sent. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { childEnvironment } from '../../../client/mcp-proxy/child-environment.ts'
import { type JsonObject, type Message, toWire } from '../../../client/mcp-proxy/jsonrpc.ts'
import { McpProxy, type ProxyOptions } from '../../../client/mcp-proxy/proxy.ts'
import type { Tool } from '../../../client/mcp-proxy/tool-list.ts'
import { type Clock, systemClock } from '../../../protocol/clock.ts'
import { until } from '../../support/until.ts'

export const script = fileURLToPath(new URL('./scripted-child.mjs', import.meta.url))

const notebook = { notebook: { type: 'string' } }
const tool = (name: string, readOnly: boolean, properties: JsonObject = {}): Tool => ({
  name,
  inputSchema: { type: 'object', properties },
  annotations: { readOnlyHint: readOnly },
})

export const TOOLS: Tool[] = [
  tool('work', false, notebook),
  tool('look', true, notebook),
  tool('connect_notebook', false),
  tool('disconnect_notebook', false, notebook),
  tool('save_notebook', false, notebook),
]

export interface Plan {
  title?: string
  tools?: Tool[]
  exit?: number
  refuse?: string
  silent?: boolean
  /** Answers `initialize` when this file exists. */
  asleep?: string
  stubborn?: boolean
  rejoin?: JsonObject
  before?: string[]
  noise?: boolean
}

export interface Start {
  pid: number
  rejoin: string | null
  instance: string | null
  args: string[]
  env: string[]
}

/** Answers and notifications as objects on the wire. */
export type Sent = JsonObject & {
  id?: string | number
  method?: string
  result?: JsonObject
  error?: JsonObject
  params?: JsonObject
}

export class Bench {
  readonly folder = mkdtempSync(join(tmpdir(), 'roomd-mcp-proxy-'))
  readonly sent: Sent[] = []
  readonly logged: string[] = []
  readonly proxy: McpProxy
  #ids = 0

  constructor(plan: Plan = {}, options: Partial<ProxyOptions> & { clock?: Clock } = {}) {
    this.plan(plan)
    this.proxy = new McpProxy({
      clock: systemClock,
      write: (message: Message) => this.sent.push(JSON.parse(JSON.stringify(toWire(message)))),
      launch: (rejoin) => ({
        command: process.execPath,
        args: [script],
        env: childEnvironment(process.env, {
          SCRIPT: this.folder,
          ROOMD_REJOIN: rejoin ?? undefined,
          ROOMD_CLIENT_INSTANCE: 'bench-instance',
        }),
      }),
      advertised: {
        serverInfo: { name: 'roomd', title: 'roomd 1.0.0', version: '1.0.0' },
        capabilities: { resources: { subscribe: true } },
        instructions: 'read this first',
        tools: TOOLS,
      },
      version: '1.0.0',
      cwd: '/work-folder',
      log: (text) => this.logged.push(text),
      ...options,
    })
  }

  /** What children that start from now on do. */
  plan(plan: Plan): void {
    writeFileSync(join(this.folder, 'plan.json'), JSON.stringify({ tools: TOOLS, ...plan }))
  }

  raw(text: string): void {
    this.proxy.receive({ kind: 'line', text })
  }

  notify(method: string, params: JsonObject = {}): void {
    this.raw(JSON.stringify({ jsonrpc: '2.0', method, params }))
  }

  /** Sends a request; the id to ask for with `answer`. */
  request(method: string, params: JsonObject = {}): number {
    const id = ++this.#ids
    this.raw(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    return id
  }

  tool(name: string, args: JsonObject = {}, meta: JsonObject = {}): number {
    return this.request('tools/call', { name, arguments: args, _meta: meta })
  }

  async answer(id: string | number): Promise<Sent> {
    return until(`an answer to ${id}`, () => this.answers(id)[0], {
      detail: () => `${JSON.stringify(this.sent, null, 1)}\n${this.logged.join('\n')}`,
    })
  }

  async result(id: number): Promise<JsonObject> {
    const { result, error } = await this.answer(id)
    if (result === undefined) throw new Error(`an error instead of a result: ${JSON.stringify(error)}`)
    return result
  }

  async call(name: string, args: JsonObject = {}): Promise<JsonObject> {
    return this.result(this.tool(name, args))
  }

  answers(id: string | number): Sent[] {
    return this.sent.filter((message) => message.id === id && message.method === undefined)
  }

  async hello(params: JsonObject = {}): Promise<Sent> {
    const id = this.request('initialize', {
      protocolVersion: '2025-06-18',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'bench', version: '1' },
      ...params,
    })
    const answer = await this.answer(id)
    this.notify('notifications/initialized')
    return answer
  }

  /** Lets calls that hold on `name` go on. */
  release(name: string): void {
    writeFileSync(join(this.folder, name), '')
  }

  get starts(): Start[] {
    return this.#lines('starts') as Start[]
  }

  get heard(): Sent[] {
    return this.#lines('heard') as Sent[]
  }

  /** Bases of the mutations that took effect. */
  get effects(): number[] {
    return this.#text('effects')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => Number(line.split(' ')[0]))
  }

  /** Resolves when children have heard `count` calls of a tool with this name. */
  async heardCalls(name: string, count: number): Promise<Sent[]> {
    const calls = () =>
      this.heard.filter(({ method, params }) => method === 'tools/call' && params?.name === name)
    return until(`${count} calls of ${name}`, () => calls().length >= count && calls())
  }

  async started(count: number): Promise<Start[]> {
    return until(`${count} children`, () => this.starts.length >= count && this.starts)
  }

  async dispose(): Promise<void> {
    await this.proxy.dispose()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #lines(file: string): unknown[] {
    return this.#text(file)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line))
  }

  /** Whole lines only: a child may be writing the next one. */
  #text(file: string): string {
    const path = join(this.folder, file)
    const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
    return text.slice(0, text.lastIndexOf('\n') + 1)
  }
}

export async function withBench(
  use: (bench: Bench) => Promise<void>,
  plan: Plan = {},
  options: Partial<ProxyOptions> = {},
): Promise<void> {
  const bench = new Bench(plan, options)
  try {
    await use(bench)
  } finally {
    await bench.dispose()
  }
}
