/** The built `roomd mcp` with its real child and the official SDK's client. */
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { programFile } from '../../../protocol/programs.ts'
import type { TestHome } from '../../support/home.ts'
import { mcpClient } from '../../support/mcp-client.ts'
import { descendants, gone, signal } from '../../support/processes.ts'
import { until } from '../../support/until.ts'

export interface ToolResult {
  readonly isError?: boolean
  readonly content: ReadonlyArray<{ readonly type: string; readonly text?: string }>
  readonly structuredContent?: Readonly<Record<string, unknown>>
}

export interface Installed {
  readonly client: Client
  readonly proxyPid: number
  /** The child that is there now; undefined between two. */
  childPid(): number | undefined
  /** SIGKILL; resolves when it is gone. */
  killChild(): Promise<void>
  call(name: string, args?: Record<string, unknown>, timeout?: number): Promise<ToolResult>
  /** Fails when the result is an error. */
  must(name: string, args?: Record<string, unknown>): Promise<Record<string, unknown>>
  close(): Promise<void>
}

/** `args` follow `roomd mcp`. */
export async function startInstalled(
  home: TestHome,
  name = 'tester',
  args: readonly string[] = [],
): Promise<Installed> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [programFile('roomd'), 'mcp', ...args],
    env: Object.fromEntries(
      Object.entries(home.env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
    ),
    cwd: home.work,
    stderr: 'ignore',
  })
  const client = mcpClient({ name, version: '1' })
  await client.connect(transport)
  const proxyPid = transport.pid
  if (proxyPid === null) throw new Error('the proxy has no process')
  const childPid = () => descendants(proxyPid)[0]
  const installed: Installed = {
    client,
    proxyPid,
    childPid,
    async killChild() {
      const pid = await until('a child to kill', childPid)
      signal(pid, 'SIGKILL')
      await gone(pid)
    },
    async call(tool, toolArguments = {}, timeout = 60_000) {
      return (await client.callTool({ name: tool, arguments: toolArguments }, undefined, {
        timeout,
      })) as ToolResult
    },
    async must(tool, toolArguments) {
      const result = await installed.call(tool, toolArguments)
      if (result.isError) throw new Error(`${tool}: ${JSON.stringify(result)}`)
      return result.structuredContent ?? {}
    },
    close: () => client.close(),
  }
  return installed
}
