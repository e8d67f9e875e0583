/** `roomd start`: returns when the daemon answers; any number at once make one daemon. */
import type { CommandRun } from '../command.ts'
import { launchDaemon } from '../daemon/launch.ts'
import { ExitCode } from '../exit-codes.ts'
import { withRunningDaemon } from '../session.ts'

export const run: CommandRun<Record<string, never>> = async (context) => {
  const { terminal, places } = context
  const { started } = await launchDaemon(places)
  const { pid, boot_id, version } = await withRunningDaemon(
    context,
    async (_client, incarnation) => incarnation,
  )
  if (terminal.json) {
    terminal.result({ running: true, started, pid, boot_id, version, socket: places.socket })
  } else {
    terminal.line(`roomd ${version} ${started ? 'started' : 'was already running'} (pid ${pid})`)
  }
  return ExitCode.done
}
