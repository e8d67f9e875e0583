/** `roomd session list` and `roomd session search`: sessions as a table, or as JSON in one shape. */
import type { LedgerSession } from '../../../protocol/ledger.ts'
import type { Client } from '../../sdk/client.ts'
import type { CommandContext, CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'
import { type Column, printTable } from '../show/table.ts'
import type { Style } from '../terminal.ts'

export interface SessionListArguments {
  readonly project?: string | undefined
  readonly limit: number
  readonly archived?: boolean | undefined
  /** search */
  readonly keyword?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

interface Listed {
  readonly sessions: LedgerSession[]
  readonly count: number
  readonly total_matched: number
  readonly truncated: boolean
}

export const run: CommandRun<SessionListArguments> = async (context, args) => {
  const { terminal } = context
  if (args.limit < 1 || args.limit > 500)
    throw new CommandFailure(ExitCode.usage, 'usage', '--limit is from 1 to 500')
  const listed = await withDaemon(context, (client) => ask(client, args))
  if (terminal.json) {
    terminal.result(listed)
    return ExitCode.done
  }
  show(context, listed, args.keyword !== undefined)
  return ExitCode.done
}

async function ask(client: Client, args: SessionListArguments): Promise<Listed> {
  const include_archived = args.archived === true
  if (args.keyword === undefined) {
    const result = await client.call('session_list', {
      project: args.project ?? '',
      limit: args.limit,
      include_archived,
    })
    return listedOf(result, result.sessions)
  }
  const filters = JSON.stringify({
    keyword: args.keyword,
    limit: args.limit,
    ...(args.project === undefined ? {} : { project: args.project }),
    ...(args.from === undefined ? {} : { date_from: args.from }),
    ...(args.to === undefined ? {} : { date_to: args.to }),
  })
  const result = await client.call('session_query', { filters, include_archived })
  return listedOf(result, result.results)
}

function listedOf(
  result: {
    success: boolean
    error?: string | undefined
    count?: number | undefined
    total_matched?: number | undefined
    truncated?: boolean | undefined
  },
  sessions: LedgerSession[] | undefined,
): Listed {
  if (!result.success)
    throw new CommandFailure(ExitCode.failed, 'invalid_argument', result.error ?? 'the ledger refused')
  return {
    sessions: sessions ?? [],
    count: result.count ?? 0,
    total_matched: result.total_matched ?? 0,
    truncated: result.truncated ?? false,
  }
}

function show({ terminal }: CommandContext, listed: Listed, searched: boolean): void {
  if (listed.count === 0) {
    terminal.line(
      searched ? 'no session has that' : 'no sessions yet ("roomd session import" takes over older ones)',
    )
    return
  }
  printTable(terminal, listed.sessions, columns(searched))
  if (listed.truncated) terminal.note(`${listed.count} of ${listed.total_matched}; --limit shows more`)
}

const statusStyles: Partial<Record<string, Style>> = { COMPLETED: 'green', IN_PROGRESS: 'yellow' }

function columns(searched: boolean): Column<LedgerSession>[] {
  return [
    { title: 'SESSION', value: (session) => session.session_id, style: () => 'cyan' },
    { title: 'PROJECT', value: (session) => session.project },
    {
      title: 'STATUS',
      value: (session) => (session.archived ? 'archived' : session.status.toLowerCase().replace('_', ' ')),
      style: (session) => (session.archived ? 'dim' : statusStyles[session.status]),
    },
    { title: 'CHANGED', value: (session) => session.modified.slice(0, 16).replace('T', ' ') },
    { title: 'REQUESTS', value: (session) => String(session.requests), align: 'right' },
    {
      title: 'TAGS',
      value: (session) => (session.tags.length === 0 ? '-' : session.tags.slice(0, 4).join(', ')),
    },
    {
      title: searched ? 'FOUND' : 'SUMMARY',
      value: (session) => (searched ? (session.snippet ?? session.summary) : session.summary) || '-',
      flexible: 'end',
    },
  ]
}
