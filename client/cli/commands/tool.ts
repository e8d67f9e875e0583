/** `roomd tool NAME [JSON]`: a tool's own handler, called once; its structured result on stdout, errors in the same shape. */
import { text as readAll } from 'node:stream/consumers'
import type { CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'

export const run: CommandRun<{
  name: string
  arguments: string | undefined
  room: string | undefined
}> = async ({ terminal, env, cwd, places }, args) => {
  const given = args.arguments === '-' ? await readAll(process.stdin) : args.arguments
  const { startDaemonFor } = await import('../daemon/start-for.ts')
  // In a shell nobody waits for a daemon that may come: it is started, or the failure says why not.
  await startDaemonFor(places, env)
  const { callTool } = await import('../../mcp/call-tool.ts')
  const left = new AbortController()
  const leave = () => left.abort()
  process.once('SIGINT', leave)
  try {
    const result = await callTool({
      name: args.name,
      arguments: given === undefined ? {} : readArguments(given),
      room: args.room,
      env,
      cwd,
      signal: left.signal,
      autostart: () => startDaemonFor(places, env),
      show: async (url) => {
        const { showInBrowser } = await import('../browser.ts')
        return showInBrowser({ env, places }, url)
      },
    })
    terminal.result(result.structuredContent)
    if (!result.isError) return ExitCode.done
    for (const block of result.content) if (block.type === 'text') terminal.note(`roomd: ${block.text}`)
    const { error } = result.structuredContent as { error?: { code?: string } }
    return error?.code === 'daemon_lost' ? ExitCode.unreachable : ExitCode.failed
  } finally {
    process.off('SIGINT', leave)
  }
}

function readArguments(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new CommandFailure(
      ExitCode.usage,
      'usage',
      `the arguments are no JSON: ${(error as Error).message}`,
      `roomd tool NAME '{"cell_id": "…"}'`,
    )
  }
}
