/** `roomd session import`: takes over the files of mcp-session-mgr. 1 when nothing could be read. */
import { resolve } from 'node:path'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'

export const run: CommandRun<{ root: string | undefined }> = async (context, { root }) => {
  const { terminal, cwd } = context
  const result = await withDaemon(context, (client) =>
    client.call('session_import', root === undefined ? {} : { root: resolve(cwd, root) }),
  )
  const { roots, imported, updated, unchanged, quarantined, warnings } = result
  if (terminal.json) terminal.result({ imported, updated, unchanged, quarantined, warnings })
  else {
    for (const place of roots) terminal.line(`read ${place}`)
    terminal.line(`${imported} imported, ${updated} updated, ${unchanged} unchanged`)
    for (const { file, reason } of quarantined)
      terminal.note(`${terminal.paintNote('red', 'set aside:')} ${file}: ${reason}`)
    for (const warning of warnings) terminal.note(`${terminal.paintNote('yellow', 'note:')} ${warning}`)
  }
  return imported + updated + unchanged === 0 ? ExitCode.failed : ExitCode.done
}
