/** `roomd stop`: the daemon ends and stays away until `roomd start`; kernels go on unless they are to end too. */
import type { CommandRun } from '../command.ts'
import { stopDaemon } from '../daemon/stop.ts'
import { ExitCode } from '../exit-codes.ts'
import { counted } from '../show/readable.ts'

export const run: CommandRun<{ kernels: boolean }> = async (context, { kernels }) => {
  const { terminal } = context
  const { stopped } = await stopDaemon(context, { reason: 'stop', kernels })
  if (terminal.json) {
    terminal.result(stopped === null ? { was_running: false } : { was_running: true, ...stopped })
  } else if (stopped === null) {
    terminal.line('roomd was not running; it will not start by itself until "roomd start"')
  } else {
    const kept = stopped.kernels_kept
    const kernelsNow = kept === 0 ? 'no kernel is left' : `${counted(kept, 'kernel')} left running`
    terminal.line(
      `roomd stopped (pid ${stopped.pid}); ${counted(stopped.rooms, 'room')} journaled, ${kernelsNow}`,
    )
  }
  return ExitCode.done
}
