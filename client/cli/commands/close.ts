/** `roomd close ROOM`: ends the kernel and detaches everybody; the record stays and can be opened again. */
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { findRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'

export const run: CommandRun<{ room: string }> = async (context, args) => {
  const { terminal } = context
  const closed = await withDaemon(context, async (client) => {
    const { notebook_id } = await findRoom(context, client, args.room)
    return client.call('close_room', { notebook_id })
  })
  if (terminal.json) terminal.result(closed)
  else terminal.line(`closed ${closed.notebook_id}${closed.kernel_ended ? '; its kernel has ended' : ''}`)
  return ExitCode.done
}
