/** The built MCP child over real stdio, driven by the official SDK's client, with the real daemon. */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { ClientCapabilities, ListToolsResult, Progress } from '@modelcontextprotocol/sdk/types.js'
import { programFile } from '../../protocol/programs.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { mcpClient } from '../support/mcp-client.ts'

export interface ToolAnswer {
  readonly isError: boolean
  // What a tool answers is what the test is about.
  readonly structured: Record<string, unknown> & {
    error?: { code: string; message: string; next?: unknown; cause?: unknown }
  }
  /** All text blocks, a line break between. */
  readonly text: string
  readonly content: ReadonlyArray<{
    type: string
    text?: string
    data?: string
    mimeType?: string
    uri?: string
  }>
}

export interface CallOptions {
  readonly meta?: Record<string, unknown>
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: Progress) => void
  readonly timeout?: number
}

export interface Child {
  readonly client: Client
  readonly pid: number
  /** Notifications of the child to its proxy. */
  readonly news: Array<Record<string, unknown>>
  readonly tools: ListToolsResult['tools']
  readonly stderr: () => string
  call(name: string, args?: Record<string, unknown>, options?: CallOptions): Promise<ToolAnswer>
  /** As `call`; throws when the tool answers an error. */
  must(name: string, args?: Record<string, unknown>, options?: CallOptions): Promise<ToolAnswer>
  close(): Promise<void>
}

export interface ChildOptions {
  readonly name?: string
  readonly title?: string
  readonly env?: Record<string, string>
  readonly cwd?: string
  readonly capabilities?: ClientCapabilities
  readonly prepare?: (client: Client) => void
}

const open = new Set<Child>()

export async function startChild(home: TestHome, options: ChildOptions = {}): Promise<Child> {
  const { name = 'test-client', title, env = {}, cwd = home.work, capabilities = {} } = options
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [programFile('roomd'), 'mcp', '--child'],
    env: { ...(home.env as Record<string, string>), ...env },
    cwd,
    stderr: 'pipe',
  })
  const err: string[] = []
  transport.stderr?.on('data', (piece: Buffer) => err.push(piece.toString()))
  const client = mcpClient({ name, version: '1', ...(title ? { title } : {}) }, { capabilities })
  const news: Array<Record<string, unknown>> = []
  client.fallbackNotificationHandler = async (notification) => {
    if (notification.method === 'notifications/roomd/child') news.push(notification.params ?? {})
  }
  options.prepare?.(client)
  await client.connect(transport)
  const { tools } = await client.listTools()
  const child: Child = {
    client,
    pid: transport.pid ?? 0,
    news,
    tools,
    stderr: () => err.join(''),
    async call(tool, args = {}, { meta, ...rest } = {}) {
      const result = await client.callTool(
        { name: tool, arguments: args, ...(meta ? { _meta: meta } : {}) },
        undefined,
        { timeout: 60_000, ...rest },
      )
      const content = result.content as ToolAnswer['content']
      return {
        isError: result.isError === true,
        structured: result.structuredContent as ToolAnswer['structured'],
        content,
        text: content.flatMap((block) => block.text ?? []).join('\n'),
      }
    },
    async must(tool, args, rest) {
      const answer = await child.call(tool, args, rest)
      if (answer.isError) throw new Error(`${tool}: ${answer.text}\n${err.join('')}`)
      return answer
    },
    async close() {
      open.delete(child)
      await client.close()
    },
  }
  open.add(child)
  return child
}

/** Its kernels get the environment of a plain shell: a developer's profile may take its time. */
export function startTestDaemon(home: TestHome): Promise<TestDaemon> {
  return startDaemon(home, { SHELL: '/bin/sh' })
}

/** A home with a daemon; children that the test leaves open are closed. */
export async function withDaemon(use: (home: TestHome, daemon: TestDaemon) => Promise<void>): Promise<void> {
  await withHome(async (home) => {
    const daemon = await startTestDaemon(home)
    try {
      await use(home, daemon)
    } finally {
      await Promise.allSettled([...open].map((child) => child.close()))
    }
  })
}
