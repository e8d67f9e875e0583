/**
 * `roomd mcp`: the proxy that an MCP client starts, and the processes it starts itself. Each of them loads only what it needs; the
 * proxy must answer before the rest of the program would have loaded.
 */
import type { CommandContext, CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { childArguments } from '../plain-mcp.ts'

export interface McpArguments {
  /** false: `--no-start`. */
  readonly start: boolean
  readonly dev?: boolean
  readonly mode: 'owner' | 'attach' | 'isolated'
  readonly child?: boolean
  readonly keeper?: string
}

export const run: CommandRun<McpArguments> = async (context, args) => {
  if (args.keeper !== undefined) {
    const { keep } = await import('../mcp-dev/isolated-home.ts')
    await keep(args.keeper)
    return ExitCode.done
  }
  if (args.child === true) return runChild(context, args)
  if (args.dev === true) {
    const { runDevProxy } = await import('../mcp-dev/run.ts')
    await runDevProxy(context, args.mode, args.start)
    return ExitCode.done
  }
  const { runProxy } = await import('../../mcp-proxy/run.ts')
  await runProxy({
    childArguments: childArguments(args.start),
    env: context.env,
    cwd: context.cwd,
  })
  return ExitCode.done
}

/** The child takes stdout over before it loads anything else. */
async function runChild(context: CommandContext, args: McpArguments): Promise<ExitCode> {
  const { HANDOFF, runMcp } = await import('../../mcp/main.ts')
  const { env, cwd, places } = context
  const code = await runMcp({
    noStart: !args.start,
    env,
    cwd,
    autostart: async () => {
      const { startDaemonFor } = await import('../daemon/start-for.ts')
      await startDaemonFor(places, env)
    },
    show: async (url) => {
      const { showInBrowser } = await import('../browser.ts')
      return showInBrowser({ env, places }, url)
    },
  })
  return code === HANDOFF ? ExitCode.handoff : ExitCode.done
}
