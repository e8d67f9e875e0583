/** `roomd token create|list|revoke`: who else may speak to the daemon over HTTP, and how far they reach. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { TokenSummary } from '../../../protocol/methods.ts'
import type { Scope } from '../../../protocol/scopes.ts'
import type { Client } from '../../sdk/client.ts'
import type { CommandContext, CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { findRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'
import { type Column, printTable } from '../show/table.ts'

export type TokenAction =
  | {
      readonly action: 'create'
      readonly scope: Scope
      readonly room: string | undefined
      readonly label: string | undefined
      readonly days: number | undefined
    }
  | { readonly action: 'list' }
  | { readonly action: 'revoke'; readonly id: string }

export const run: CommandRun<TokenAction> = (context, args) =>
  withDaemon(context, async (client) => {
    switch (args.action) {
      case 'create':
        await create(context, client, args)
        return ExitCode.done
      case 'list':
        await list(context, client)
        return ExitCode.done
      case 'revoke': {
        const { revoked } = await client.call('revoke_token', { token_id: args.id })
        if (context.terminal.json) context.terminal.result({ revoked })
        else context.terminal.line(`revoked ${revoked.token_id}${revoked.label ? ` (${revoked.label})` : ''}`)
        return ExitCode.done
      }
    }
  })

async function create(
  context: CommandContext,
  client: Client,
  { scope, room, label, days }: Extract<TokenAction, { action: 'create' }>,
): Promise<void> {
  const { terminal } = context
  const notebookId = room === undefined ? undefined : (await findRoom(context, client, room)).notebook_id
  const made = await client.call('create_token', {
    scope,
    ...(notebookId === undefined ? {} : { notebook_id: notebookId }),
    ...(label === undefined ? {} : { label }),
    ...(days === undefined ? {} : { ttl_s: days * 86_400 }),
  })
  if (made.token_id === null) throw new RoomdError('client_protocol', 'the daemon made a token for one use')
  if (terminal.json) {
    terminal.result(made)
    return
  }
  // The secret alone on stdout, so that it can be piped to where it belongs.
  terminal.note(
    `token ${made.token_id} (${scope}${room === undefined ? '' : `, ${room}`}); it is shown only now:`,
  )
  terminal.line(made.token)
}

async function list({ terminal }: CommandContext, client: Client): Promise<void> {
  const { tokens } = await client.call('list_tokens', {})
  if (terminal.json) terminal.result({ tokens })
  else if (tokens.length === 0) terminal.line('no tokens; make one with "roomd token create"')
  else printTable(terminal, tokens, columns)
}

const columns: readonly Column<TokenSummary>[] = [
  { title: 'ID', value: ({ token_id }) => token_id, style: () => 'cyan' },
  { title: 'SCOPE', value: ({ scope }) => scope },
  { title: 'ROOM', value: ({ notebook_id }) => notebook_id?.slice(0, 8) ?? 'all' },
  { title: 'UNTIL', value: ({ expires_at }) => (expires_at === null ? 'revoked' : moment(expires_at)) },
  { title: 'LABEL', value: ({ label }) => label, flexible: 'end' },
]

function moment(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}
