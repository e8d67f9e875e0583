/** `roomd start`: returns when the daemon answers; any number at once make one daemon. */
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { launchAndMeet } from '../session.ts'

export const run: CommandRun<Record<string, never>> = async (context) => {
  const { terminal, places } = context
  const { started, daemon } = await launchAndMeet(context)
  const { pid, boot_id, version } = daemon
  if (terminal.json) {
    terminal.result({ running: true, started, pid, boot_id, version, socket: places.socket })
  } else {
    terminal.line(`roomd ${version} ${started ? 'started' : 'was already running'} (pid ${pid})`)
  }
  return ExitCode.done
}
