/**
 * The short way into `roomd mcp` and its child, past the table of commands: an MCP client waits for the first answer, and reading the
 * table costs a third of the time that Node needs to start. Anything but these two options takes the usual way.
 */
export interface PlainMcp {
  readonly start: boolean
  readonly child: boolean
}

/** null: the command line says something else. */
export function plainMcp(argv: readonly string[]): PlainMcp | null {
  const [command, ...options] = argv
  if (command !== 'mcp' || !options.every((option) => option === '--no-start' || option === '--child'))
    return null
  return { start: !options.includes('--no-start'), child: options.includes('--child') }
}

/** Runs it to its end and resolves with the exit code. */
export async function runPlainMcp({ start, child }: PlainMcp): Promise<number> {
  if (!child) {
    const { runProxy } = await import('../mcp-proxy/run.ts')
    return runProxy({ childArguments: childArguments(start), env: process.env, cwd: process.cwd() })
  }
  const { openContext } = await import('./command.ts')
  const context = openContext(false)
  try {
    const { run } = await import('./commands/mcp.ts')
    return await run(context, { start, child, mode: 'owner' })
  } catch (thrown) {
    const { reportFailure } = await import('./failure.ts')
    return reportFailure(thrown, context.terminal)
  }
}

/** What the proxy starts its child with. */
export function childArguments(start: boolean): readonly string[] {
  return ['mcp', '--child', ...(start ? [] : ['--no-start'])]
}
