/** `roomd status`: asks a running daemon, never starts one. The SDK is loaded only if somebody answers. */
import { existsSync } from 'node:fs'
import type { DaemonStatus } from '../../../protocol/methods.ts'
import type { CommandContext, CommandRun } from '../command.ts'
import { notServing, writtenPid } from '../daemon/described.ts'
import { probe } from '../daemon/probe.ts'
import { ExitCode } from '../exit-codes.ts'
import { counted, duration, size } from '../show/readable.ts'
import type { Terminal } from '../terminal.ts'

export const run: CommandRun<Record<string, never>> = async (context) => {
  const { terminal, places } = context
  const presence = await probe(places.socket)
  if (presence.state === 'answers') {
    const { withRunningDaemon } = await import('../session.ts')
    const status = await withRunningDaemon(context, (client) => client.call('status', {}))
    if (terminal.json) terminal.result(status)
    else show(terminal, status)
    return ExitCode.done
  }
  if (presence.state === 'absent') notRunning(context)
  else {
    const failure = notServing(presence, places)
    if (terminal.json) {
      terminal.result({
        running: false,
        socket: places.socket,
        pid: writtenPid(places),
        reason: failure.message,
        next: { command: failure.next },
      })
    }
    terminal.note(`${terminal.paintNote('red', 'roomd:')} ${failure.message}`)
    terminal.note(`  next: ${failure.next}`)
  }
  return ExitCode.unreachable
}

function notRunning({ terminal, places }: CommandContext): void {
  const stopped = existsSync(places.stopped)
  if (terminal.json) terminal.result({ running: false, stopped, socket: places.socket })
  else {
    const why = stopped ? 'it was stopped by "roomd stop"' : `nothing answers at ${places.socket}`
    terminal.line(`roomd is not running: ${why}`)
    terminal.line(`  next: ${terminal.paint('bold', 'roomd start')}`)
  }
}

function show(terminal: Terminal, status: DaemonStatus): void {
  const { journal, memory } = status
  const name = (text: string) => terminal.paint('dim', text.padEnd(9))
  const state = terminal.paint(journal.state === 'ok' ? 'green' : 'yellow', journal.state.replace('_', ' '))
  terminal.line(
    `${terminal.paint('bold', `roomd ${status.version}`)} ${terminal.paint('green', 'running')} for ${duration(status.uptime_s * 1000)} (pid ${status.pid})`,
  )
  terminal.line(
    `${name('rooms')}${counted(status.rooms, 'room')}, ${counted(status.peers, 'peer')}, ${counted(status.kernels, 'kernel')}, ${counted(status.connections, 'connection')}`,
  )
  terminal.line(
    `${name('journal')}${state}, ${size(journal.size)}, ${journal.pending} pending${journal.reason ? `: ${journal.reason}` : ''}`,
  )
  terminal.line(`${name('memory')}${size(memory.rss)}, JavaScript heap ${size(memory.heap_used)}`)
  terminal.line(`${name('socket')}${status.socket}`)
  terminal.line(`${name('http')}${status.http ?? 'off'}`)
}
