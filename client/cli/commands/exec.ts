/** `roomd exec ROOM CODE`: code of no cell, in the room's kernel; its variables are the room's. */
import { text as readAll } from 'node:stream/consumers'
import type { CommandRun } from '../command.ts'
import { CtrlC, Left } from '../ctrl-c.ts'
import { watchOver } from '../daemon/watch-over.ts'
import { ExitCode } from '../exit-codes.ts'
import { answerInputs } from '../input-answers.ts'
import { openOrAttachRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'
import { ExecutionPrinter } from '../show/execution-printer.ts'
import { LiveScreen } from '../show/live-screen.ts'

export const run: CommandRun<{ room: string; code: string }> = async (context, args) => {
  const { terminal } = context
  const code = args.code === '-' ? await readAll(process.stdin) : args.code
  return withDaemon(context, async (client) => {
    const room = await openOrAttachRoom(context, client, args.room)
    const screen = new LiveScreen(terminal)
    let fail: (error: unknown) => void = () => {}
    const failed = new Promise<never>((_resolve, reject) => {
      fail = reject
    })
    let id: string | null = null
    const ctrlC = new CtrlC(() => {
      screen.note('roomd: interrupting the kernel; Ctrl-C again leaves')
      room.interrupt().catch(fail)
    })
    const inputs = answerInputs(room, screen, (executionId) => executionId === id, ctrlC.press)
    const stopWatching = watchOver(client, screen, fail)
    const work = async (): Promise<ExitCode> => {
      const execution = await room.execute({ code }, { allowStdin: inputs.possible })
      id = execution.id
      if (!terminal.json) {
        const printer = new ExecutionPrinter(screen, terminal, (blob) => client.fetchBlob(blob))
        for await (const output of execution.outputs()) await printer.print(output)
        printer.finish()
      }
      const { status, execution: ended } = await execution.done
      if (terminal.json) terminal.result(ended)
      else if (status !== 'done' && status !== 'error') {
        terminal.note(`roomd: the code ended as ${status}${ended.reason ? `: ${ended.reason}` : ''}`)
      }
      return status === 'done' ? ExitCode.done : ExitCode.failed
    }
    const working = work()
    // When the race is lost its end concerns nobody.
    working.catch(() => {})
    try {
      return await ctrlC.orLeave(Promise.race([working, failed]))
    } catch (thrown) {
      if (!(thrown instanceof Left)) throw thrown
      terminal.note(`roomd: left; the code may still run: roomd interrupt ${room.id.slice(0, 8)}`)
      return ExitCode.left
    } finally {
      stopWatching()
      inputs.dispose()
      ctrlC.dispose()
    }
  })
}
