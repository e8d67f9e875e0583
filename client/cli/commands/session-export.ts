/** `roomd session export`: writes all sessions as files that mcp-session-mgr reads. */
import { resolve } from 'node:path'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'
import { counted } from '../show/readable.ts'

export const run: CommandRun<{ dir: string; merge: boolean }> = async (context, { dir, merge }) => {
  const { terminal, cwd } = context
  const result = await withDaemon(context, (client) =>
    client.call('session_export', { dir: resolve(cwd, dir), merge }),
  )
  if (terminal.json) terminal.result(result)
  else
    terminal.line(
      `${counted(result.sessions, 'session')} in ${counted(result.files, 'file')} written to ${result.dir}`,
    )
  return ExitCode.done
}
