/** `roomd restart-kernel ROOM`: a new kernel, by the same spec or by another; its variables begin empty. */
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { openOrAttachRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'

export const run: CommandRun<{ room: string; kernel: string | undefined; reset: boolean }> = async (
  context,
  args,
) => {
  const { terminal } = context
  const { kernel } = await withDaemon(context, async (client) => {
    const room = await openOrAttachRoom(context, client, args.room)
    return room.restartKernel(args.kernel, { reset: args.reset })
  })
  if (terminal.json) terminal.result({ kernel })
  else terminal.line(`${kernel.name} is ${kernel.state}${kernel.pid === null ? '' : ` (pid ${kernel.pid})`}`)
  return ExitCode.done
}
