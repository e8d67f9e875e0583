/** `roomd keep ROOM TIME`: how long the room's kernel is kept when nobody is there and nothing runs. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { KeepAlive } from '../../../protocol/notebook.ts'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { openOrAttachRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'

export const run: CommandRun<{ room: string; time: string }> = async (context, args) => {
  const { terminal } = context
  const wanted = parseTime(args.time)
  const keep_alive = await withDaemon(context, async (client) => {
    const room = await openOrAttachRoom(context, client, args.room)
    return room.keepAlive(wanted)
  })
  if (terminal.json) terminal.result({ keep_alive })
  else
    terminal.line(
      keep_alive === 'pinned'
        ? 'its kernel is kept until it is ended'
        : `its idle kernel is kept for ${keep_alive} s`,
    )
  return ExitCode.done
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Throws `invalid_argument` for what is no time between 5 seconds and 7 days. */
function parseTime(text: string): KeepAlive | 'default' {
  if (text === 'pinned' || text === 'default') return text
  const [, number, unit = 's'] = /^(\d{1,9}(?:\.\d+)?)([smhd])?$/.exec(text) ?? []
  const seconds = Number(number) * (UNITS[unit] ?? Number.NaN)
  if (seconds >= 5 && seconds <= 7 * 86_400) return seconds
  throw new RoomdError(
    'invalid_argument',
    `"${text}" is no time to keep a kernel: say seconds, or a number with s, m, h or d (5s to 7d), "pinned" or "default"`,
  )
}
