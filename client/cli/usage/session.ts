/** The ledger of agent sessions. */
import type { Command } from 'commander'
import { type Act, command, type JsonOption, json, wholeNumber } from './options.ts'

interface SessionListOptions extends JsonOption {
  project?: string
  limit: number
  archived?: boolean
}

export function sessionCommands(program: Command, act: Act): void {
  const session = program.command('session').description('the ledger: records of what agents worked on')
  const listing = (name: string, description: string) =>
    command(session, name, description)
      .option('-p, --project <name>', 'of this project alone')
      .option('-n, --limit <count>', 'at most so many', wholeNumber, 20)
      .option('-a, --archived', 'also archived ones')

  listing('list', 'sessions, the last changed first').action((options: SessionListOptions) =>
    act(json(options), async (c) => (await import('../commands/session-list.ts')).run(c, options)),
  )

  listing('search', 'sessions in which words occur, the best first')
    .argument('<words...>', 'what to look for; a part of a word is enough')
    .option('--from <date>', 'changed at or after this date or time')
    .option('--to <date>', 'changed at or before this date or time')
    .action((words: string[], options: SessionListOptions & { from?: string; to?: string }) =>
      act(json(options), async (c) =>
        (await import('../commands/session-list.ts')).run(c, { ...options, keyword: words.join(' ') }),
      ),
    )

  command(session, 'show', 'one session: what was asked for, what came of it, what is to do')
    .argument('<session>', 'id, or a unique beginning of one')
    .action((id: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/session-show.ts')).run(c, { id })),
    )

  command(session, 'import', 'take over sessions of mcp-session-mgr; may be repeated')
    .option(
      '--root <dir>',
      'folder that holds them; default: where mcp-session-mgr keeps them, under ~/.claude',
    )
    .action((options: JsonOption & { root?: string }) =>
      act(json(options), async (c) =>
        (await import('../commands/session-import.ts')).run(c, { root: options.root }),
      ),
    )

  command(session, 'export', 'write all sessions as files, in the layout of mcp-session-mgr')
    .argument('<dir>', 'an empty or new folder')
    .option('--merge', 'into a folder that holds sessions already')
    .action((dir: string, options: JsonOption & { merge?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/session-export.ts')).run(c, { dir, merge: options.merge === true }),
      ),
    )

  session
    .command('hook')
    .description("one event of an agent's hooks, JSON on stdin; never blocks, always ends with 0")
    .argument('[event]', 'name of the event, such as UserPromptSubmit; default: hook_event_name of the input')
    .action((event = '') => act(false, async () => (await import('../hook/hook-command.ts')).runHook(event)))
}
