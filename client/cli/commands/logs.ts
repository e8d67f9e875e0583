/** `roomd logs`: the end of the daemon's log, readable; `--json` leaves the lines as they are. */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { CommandRun } from '../command.ts'
import { daemonOut } from '../daemon/launch.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { followLines } from '../log-follow.ts'
import { lastLines, readableLogLine } from '../log-lines.ts'

interface LogsArguments {
  readonly follow: boolean
  readonly lines: number
}

export const run: CommandRun<LogsArguments> = async ({ terminal, places }, { follow, lines }) => {
  const file = join(places.logs, 'daemon.log')
  if (!follow && !existsSync(file)) {
    throw new CommandFailure(
      ExitCode.failed,
      'not_found',
      `there is no log yet: no daemon has written ${file}${existsSync(daemonOut(places)) ? ` (but see ${daemonOut(places)})` : ''}.`,
      'roomd start',
    )
  }
  const show = (line: string) => terminal.line(terminal.json ? line : readableLogLine(line, terminal.paint))
  // The size first: a line that is written in between is then shown by following, once.
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  for (const line of lastLines(file, lines, size)) show(line)
  if (!follow) return ExitCode.done
  const ended = new AbortController()
  process.once('SIGINT', () => ended.abort())
  process.once('SIGTERM', () => ended.abort())
  await followLines(file, size, show, ended.signal)
  return ExitCode.done
}
