/** Tokens. */
import { type Command, Option } from 'commander'
import type { Scope } from '../../../protocol/scopes.ts'
import { type Act, command, days, type JsonOption, json } from './options.ts'

export function tokenCommands(program: Command, act: Act): void {
  const token = program.command('token').description('tokens for programs that speak to the daemon over HTTP')
  command(token, 'create', 'make a token; it is shown once, alone on stdout')
    .addOption(
      new Option('--scope <scope>', 'viewer reads, editor also edits, owner also runs and manages')
        .choices(['viewer', 'editor', 'owner'])
        .default('viewer'),
    )
    .option('--room <room>', 'for this room alone: id, unique prefix of an id, or path')
    .option('--label <text>', 'what it is for')
    .option('--days <days>', 'ends by itself after so many days', days)
    .action((options: JsonOption & { scope: Scope; room?: string; label?: string; days?: number }) =>
      act(json(options), async (c) =>
        (await import('../commands/token.ts')).run(c, {
          action: 'create',
          scope: options.scope,
          room: options.room,
          label: options.label,
          days: options.days,
        }),
      ),
    )
  command(token, 'list', 'tokens that hold').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('../commands/token.ts')).run(c, { action: 'list' })),
  )
  command(token, 'revoke', 'end a token, and every connection that was made with it')
    .argument('<id>', 'see "roomd token list"')
    .action((id: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('../commands/token.ts')).run(c, { action: 'revoke', id }),
      ),
    )
}
