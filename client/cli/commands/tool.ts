/** `roomd tool`: the MCP tools of client/mcp, which this build does not have yet. */
import type { CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'

export const run: CommandRun<{
  name: string
  arguments: string | undefined
  room: string | undefined
}> = async () => {
  throw new CommandFailure(
    ExitCode.failed,
    'unsupported',
    'this build of roomd has no MCP tools yet; the SDK (roomd/client) and the other commands do the same work.',
    'roomd --help',
  )
}
