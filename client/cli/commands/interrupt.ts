/** `roomd interrupt ROOM`: passes every flood of output; says so when the kernel does not stop. */
import type { CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { attachRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'
import { counted } from '../show/readable.ts'

export const run: CommandRun<{ room: string }> = async (context, args) => {
  const { terminal } = context
  const answer = await withDaemon(context, async (client) => {
    const room = await attachRoom(context, client, args.room)
    return room.call('interrupt', {})
  })
  const { interrupted, cancelled, offer } = answer
  if (offer !== undefined) {
    throw new CommandFailure(
      ExitCode.failed,
      'kernel_busy',
      'the kernel was interrupted but the cell goes on (it may catch interrupts, or be in native code).',
      `roomd restart-kernel ${args.room}`,
    )
  }
  if (terminal.json) terminal.result({ interrupted, cancelled })
  else {
    const queue = cancelled.length === 0 ? '' : `; ${counted(cancelled.length, 'queued cell')} cancelled`
    terminal.line(`${interrupted === null ? 'nothing was running' : 'interrupted the running cell'}${queue}`)
  }
  return ExitCode.done
}
