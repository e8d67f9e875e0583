/** `roomd restart`: stop and start; kernels and running cells go on, clients dial again by themselves. */
import type { CommandRun } from '../command.ts'
import { stopDaemon } from '../daemon/stop.ts'
import { ExitCode } from '../exit-codes.ts'
import { launchAndMeet } from '../session.ts'

export const run: CommandRun<Record<string, never>> = async (context) => {
  const { terminal, places } = context
  const { stopped } = await stopDaemon(context, { reason: 'restart', kernels: false })
  const { daemon } = await launchAndMeet(context)
  const { pid, boot_id, version } = daemon
  if (terminal.json) {
    terminal.result({
      running: true,
      pid,
      boot_id,
      version,
      socket: places.socket,
      ...(stopped === null ? {} : { previous_pid: stopped.pid, kernels_kept: stopped.kernels_kept }),
    })
  } else {
    const before = stopped === null ? 'none was running' : `before: pid ${stopped.pid}`
    terminal.line(`roomd ${version} restarted (pid ${pid}; ${before})`)
  }
  return ExitCode.done
}
