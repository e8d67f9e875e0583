/** `roomd ps`: rooms as the daemon knows them; `--all` also those that are only in its store. */
import { type RoomSummary, roomForOutsiders } from '../../../protocol/notebook.ts'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'
import { mebibytes, shortPath } from '../show/readable.ts'
import { type Column, printTable } from '../show/table.ts'
import type { Style } from '../terminal.ts'

export const run: CommandRun<{ all: boolean }> = async (context, { all }) => {
  const { terminal } = context
  const { rooms } = await withDaemon(context, (client) =>
    client.call('list_rooms', { inactive: all, limit: 500 }),
  )
  if (terminal.json) terminal.result({ rooms: rooms.map(roomForOutsiders) })
  else if (rooms.length === 0) {
    terminal.line(all ? 'no rooms' : 'no rooms are open ("roomd ps --all" also shows rooms in the store)')
  } else printTable(terminal, rooms, columnsFor(rooms))
  return ExitCode.done
}

const kernelStyles: Partial<Record<string, Style>> = { busy: 'yellow', idle: 'green', dead: 'red' }

function columnsFor(rooms: readonly RoomSummary[]): Column<RoomSummary>[] {
  const length = shortestUnique(rooms.map((room) => room.notebook_id))
  return [
    { title: 'ID', value: (room) => room.notebook_id.slice(0, length), style: () => 'cyan' },
    { title: 'STATE', value: (room) => room.state },
    {
      title: 'KERNEL',
      value: ({ kernel }) => (kernel === null ? '-' : `${kernel.name} ${kernel.state}`),
      style: ({ kernel }) => (kernel === null ? undefined : kernelStyles[kernel.state]),
    },
    { title: 'QUEUE', value: ({ queue }) => queueText(queue) },
    { title: 'MEMORY', value: (room) => mebibytes(room.memory), align: 'right' },
    { title: 'PEERS', value: (room) => peersText(room.peers.map((peer) => peer.label)) },
    { title: 'NOTEBOOK', value: notebookText, flexible: 'start' },
  ]
}

/** At least 8 characters, more where two ids begin alike. */
function shortestUnique(ids: readonly string[]): number {
  for (let length = 8; length < 36; length++) {
    if (new Set(ids.map((id) => id.slice(0, length))).size === ids.length) return length
  }
  return 36
}

function queueText({ running, queued }: RoomSummary['queue']): string {
  if (running === 0 && queued === 0) return '-'
  return queued === 0 ? 'running' : `running +${queued}`
}

function peersText(labels: readonly string[]): string {
  if (labels.length === 0) return '-'
  const shown = labels.slice(0, 3).join(', ')
  return labels.length > 3 ? `${shown} +${labels.length - 3}` : shown
}

function notebookText(room: RoomSummary): string {
  const name = room.path === null ? `(${room.title})` : shortPath(room.path)
  return room.source_state === 'ready' || room.source_state === 'none'
    ? name
    : `${name} [${room.source_state}]`
}
