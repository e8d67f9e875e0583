/**
 * The proxy as a process: stdin and stdout of this process are the client's. Resolves with the exit code when the client is gone
 * and no child is left; everything of ours ends within 2 s of the client.
 */
import { dirname, join } from 'node:path'
import { type Clock, systemClock } from '../../protocol/clock.ts'
import { VERSION } from '../../protocol/version.ts'
import { childEnvironment, currentProgram, type Environment } from './child-environment.ts'
import { ClientPipe } from './client-pipe.ts'
import type { LocalTool } from './local-tools.ts'
import { McpProxy } from './proxy.ts'
import type { Supervisor } from './supervisor.ts'
import { readAdvertised } from './tool-list.ts'

export interface RunOptions {
  /** Arguments of the program for a child. */
  readonly childArguments: readonly string[]
  /** Variables the child gets besides the inherited ones; undefined removes one. They win over all. */
  readonly childVariables?: Environment
  readonly env: Environment
  readonly cwd: string
  /** Further tools that the proxy answers itself. */
  readonly localTools?: (supervisor: () => Supervisor) => readonly LocalTool[]
  /** Called when the client is gone, while the child ends. */
  readonly onEnd?: () => void
  readonly clock?: Clock
}

/** How long calls that are under way when stdin ends may still be answered. */
const LAST_ANSWERS = 500

export async function runProxy(options: RunOptions): Promise<number> {
  const { env } = options
  const clock = options.clock ?? systemClock
  const log = (text: string) => {
    process.stderr.write(`roomd mcp: ${text}\n`)
  }
  // One per proxy, never inherited: two proxies with one would refuse each other's activations and share mutation ids.
  const instance = `mcp-${globalThis.crypto.randomUUID()}`
  let end: (how: { why: string; polite: boolean }) => void = () => {}
  const ended = new Promise<{ why: string; polite: boolean }>((resolve) => {
    end = resolve
  })
  const pipe = new ClientPipe(clock, {
    line: (line) => proxy.receive(line),
    gone: (why, polite) => end({ why, polite }),
    behind: (behind) => proxy.holdChild(behind),
  })
  const proxy: McpProxy = new McpProxy({
    clock,
    write: (message) => pipe.send(message),
    launch: (rejoin) => {
      const { node, program } = currentProgram()
      return {
        command: node,
        args: [program, ...options.childArguments],
        env: childEnvironment(env, {
          ...options.childVariables,
          ROOMD_CLIENT_INSTANCE: instance,
          ROOMD_REJOIN: rejoin ?? undefined,
        }),
      }
    },
    advertised: readAdvertised(join(dirname(currentProgram().program), 'mcp-tools.json')),
    version: VERSION,
    localTools: options.localTools?.(() => proxy.supervisor) ?? [],
    rejoin: env.ROOMD_REJOIN || null,
    cwd: options.cwd,
    log,
  })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.once(signal, () => end({ why: signal, polite: false }))
  }
  pipe.open()
  const { polite } = await ended
  if (polite && proxy.openCount > 0) {
    await new Promise<void>((resolve) => {
      clock.after(LAST_ANSWERS, resolve)
      void proxy.idle().then(resolve)
    })
  }
  options.onEnd?.()
  await proxy.dispose()
  await Promise.race([pipe.flush(), new Promise<void>((resolve) => clock.after(LAST_ANSWERS, resolve))])
  pipe.dispose()
  return 0
}
