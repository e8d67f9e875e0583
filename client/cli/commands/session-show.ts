/** `roomd session show`: one session as markdown, or everything of it as JSON. */
import type { MethodResult } from '../../../protocol/methods.ts'
import type { Client } from '../../sdk/client.ts'
import type { CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'
import type { Terminal } from '../terminal.ts'

type Shown = MethodResult<'session_show'>

export const run: CommandRun<{ id: string }> = async (context, { id }) => {
  const { terminal } = context
  const shown = await withDaemon(context, (client) => find(client, id))
  if (!shown.success)
    throw new CommandFailure(
      ExitCode.failed,
      'not_found',
      shown.error ?? `no session ${id}`,
      'roomd session list',
    )
  if (terminal.json) {
    const { success: _success, ...rest } = shown
    terminal.result(rest)
  } else print(terminal, shown)
  return ExitCode.done
}

/** A unique beginning of an id will do. */
async function find(client: Client, id: string): Promise<Shown> {
  const shown = await client.call('session_show', { session_id: id })
  if (shown.success) return shown
  const { sessions = [] } = await client.call('session_list', { limit: 500, include_archived: true })
  const like = sessions.filter((session) => session.session_id.startsWith(id))
  const [only] = like
  if (like.length > 1)
    throw new CommandFailure(
      ExitCode.failed,
      'invalid_argument',
      `"${id}" begins more than one id: ${like
        .slice(0, 5)
        .map((session) => session.session_id)
        .join(', ')}`,
    )
  return only ? client.call('session_show', { session_id: only.session_id }) : shown
}

function print(
  terminal: Terminal,
  { session, requests = [], work_items = [], rooms = [], children = [], markdown = '' }: Shown,
): void {
  if (!session) return
  const facts: Array<[string, string]> = [
    ['session', session.session_id],
    ['project', session.project],
    ['status', session.archived ? 'archived' : session.status],
    ['began', session.created_at || '-'],
    ['changed', session.modified],
    ['goes on', session.parent ?? '-'],
    ['went on as', children.join(', ') || '-'],
    ['tags', session.tags.join(', ') || '-'],
  ]
  for (const [name, value] of facts) terminal.line(`${terminal.paint('dim', name.padEnd(11))} ${value}`)
  terminal.line()
  terminal.line(markdown)
  if (requests.length > 0) {
    terminal.line()
    terminal.line(terminal.paint('bold', 'Requests'))
    for (const { n, prompt } of requests)
      terminal.line(`${String(n).padStart(4)}  ${String(prompt).replace(/\s+/g, ' ') || '-'}`)
  }
  if (work_items.length > 0) {
    terminal.line()
    terminal.line(terminal.paint('bold', 'Work items'))
    for (const item of work_items)
      terminal.line(`  ${item.status.padEnd(11)}  ${item.work_id}  ${item.description.replace(/\s+/g, ' ')}`)
  }
  if (rooms.length > 0) {
    terminal.line()
    terminal.line(terminal.paint('bold', 'Notebooks'))
    for (const room of rooms)
      terminal.line(
        `  ${room.path ?? room.notebook_id}  ${room.cells_run} cells run, ${room.cells_failed} failed`,
      )
  }
}
