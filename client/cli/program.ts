/**
 * The table of commands: names, arguments, help. Each command's code is loaded when it is called and not before, so that
 * `roomd version` costs no SDK. Exit codes are in `exit-codes.ts`.
 */
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import type { Scope } from '../../protocol/scopes.ts'
import { VERSION } from '../../protocol/version.ts'
import { type CommandContext, openContext } from './command.ts'
import { ExitCode } from './exit-codes.ts'

interface McpOptions {
  start: boolean
  dev?: boolean
  mode: 'owner' | 'attach' | 'isolated'
  child?: boolean
  keeper?: string
}

interface JsonOption {
  json?: boolean
}

/** Runs one command line (without node and script) and resolves with its exit code. Never rejects. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  let code: number = ExitCode.done
  const program = buildProgram(async (json, run) => {
    const context = openContext(json)
    try {
      code = await run(context)
    } catch (thrown) {
      const { reportFailure } = await import('./failure.ts')
      code = reportFailure(thrown, context.terminal)
    }
  })
  try {
    await program.parseAsync([...argv], { from: 'user' })
    return code
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown
    // Help and version are asked for; everything else that commander refuses is usage, and it has said so on stderr.
    if (thrown.exitCode === 0) return ExitCode.done
    if (argv.includes('--json')) {
      const message = thrown.message.replace(/^error: /, '')
      process.stdout.write(`${JSON.stringify({ error: { code: 'usage', message, retryable: false } })}\n`)
    }
    return ExitCode.usage
  }
}

type Act = (json: boolean, run: (context: CommandContext) => Promise<number>) => Promise<void>

function buildProgram(act: Act): Command {
  const program = new Command('roomd')
    .description('Live notebooks that agents, editors and people share, kept by a daemon.')
    .version(VERSION, '-V, --version')
    .usage('COMMAND [options]')
    .exitOverride()
    .configureHelp({ sortSubcommands: false })
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'roomd: ')) })
  daemonCommands(program, act)
  notebookCommands(program, act)
  projectCommands(program, act)
  agentCommands(program, act)
  sessionCommands(program, act)
  pointToHelp(program, 'roomd')
  return program
}

/** What is wrong with a command line is followed by the help that fits it. */
function pointToHelp(command: Command, words: string): void {
  command.showHelpAfterError(`  next: ${words} --help`)
  for (const sub of command.commands) pointToHelp(sub, `${words} ${sub.name()}`)
}

function daemonCommands(program: Command, act: Act): void {
  command(program, 'start', 'start the background daemon; returns when it answers').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/start.ts')).run(c, {})),
  )

  command(program, 'stop', 'stop the daemon; it stays stopped until "roomd start". Kernels go on')
    .option('--kernels', 'also end all kernels')
    .action((options: JsonOption & { kernels?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/stop.ts')).run(c, { kernels: options.kernels === true }),
      ),
    )

  command(program, 'restart', 'stop the daemon and start it again; kernels and running cells go on').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/restart.ts')).run(c, {})),
  )

  command(program, 'status', 'what the daemon is doing; exit 69 when none runs').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/status.ts')).run(c, {})),
  )

  command(program, 'logs', "the daemon's log")
    .option('-f, --follow', 'go on with new lines, through rotation')
    .option('-n, --lines <count>', 'how many of the last lines', wholeNumber, 40)
    .action((options: JsonOption & { follow?: boolean; lines: number }) =>
      act(json(options), async (c) =>
        (await import('./commands/logs.ts')).run(c, {
          follow: options.follow === true,
          lines: options.lines,
        }),
      ),
    )

  command(program, 'daemon', 'run the daemon in the foreground (what a service runs)').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/daemon.ts')).run(c, {})),
  )

  const config = program.command('config').description("the home's settings")
  command(config, 'get', 'settings with their defaults')
    .argument('[key]', 'one of them, such as http.port')
    .action((key: string | undefined, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/config.ts')).run(c, { action: 'get', key })),
    )
  command(config, 'set', 'change a setting; refused if the whole would not be valid')
    .argument('<key>', 'such as http.port')
    .argument('<value>', 'JSON, or text')
    .action((key: string, value: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('./commands/config.ts')).run(c, { action: 'set', key, value }),
      ),
    )
  command(config, 'unset', 'take a setting back to its default')
    .argument('<key>', 'such as http.port')
    .action((key: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('./commands/config.ts')).run(c, { action: 'unset', key }),
      ),
    )
  command(config, 'path', 'the file that holds them').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('./commands/config.ts')).run(c, { action: 'path' })),
  )

  command(program, 'open', 'open the console in a browser')
    .argument('[room]', 'id, unique prefix of an id, or path')
    .option('--print', 'print the address instead; it is good for one visit within two minutes')
    .action((room: string | undefined, options: JsonOption & { print?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/open.ts')).run(c, { room, print: options.print === true }),
      ),
    )

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
        (await import('./commands/token.ts')).run(c, {
          action: 'create',
          scope: options.scope,
          room: options.room,
          label: options.label,
          days: options.days,
        }),
      ),
    )
  command(token, 'list', 'tokens that hold').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('./commands/token.ts')).run(c, { action: 'list' })),
  )
  command(token, 'revoke', 'end a token, and every connection that was made with it')
    .argument('<id>', 'see "roomd token list"')
    .action((id: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/token.ts')).run(c, { action: 'revoke', id })),
    )

  command(program, 'version', 'the version of this program').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('./commands/version.ts')).run(c, {})),
  )
}

function notebookCommands(program: Command, act: Act): void {
  command(program, 'run', 'run all cells of a notebook, show their outputs, save it')
    .argument('<notebook>', 'path of an .ipynb file')
    .option('--kernel <name>', 'kernelspec to run it with; see "roomd kernels"')
    .option('--timeout <seconds>', 'interrupt and fail after this long', seconds)
    .option('--no-save', 'leave the file as it is')
    .option('--keep', 'keep room and kernel for later')
    .action(
      (
        notebook: string,
        options: JsonOption & { kernel?: string; timeout?: number; save: boolean; keep?: boolean },
      ) =>
        act(json(options), async (c) =>
          (await import('./commands/run.ts')).run(c, {
            notebook,
            kernel: options.kernel,
            timeoutMs: options.timeout,
            save: options.save,
            keep: options.keep === true,
          }),
        ),
    )

  command(program, 'ps', 'rooms: who is in them, their kernels and queues')
    .option('-a, --all', 'also rooms that are only in the store')
    .action((options: JsonOption & { all?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/ps.ts')).run(c, { all: options.all === true }),
      ),
    )

  command(program, 'exec', "run code in a room's kernel and print what comes of it")
    .argument('<room>', 'id, unique prefix of an id, or path')
    .argument('<code>', 'source text; "-" reads it from stdin')
    .action((room: string, code: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/exec.ts')).run(c, { room, code })),
    )

  command(program, 'interrupt', 'interrupt the running cell and cancel what is queued')
    .argument('<room>', 'id, unique prefix of an id, or path')
    .action((room: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/interrupt.ts')).run(c, { room })),
    )

  command(program, 'restart-kernel', "end a room's kernel and start a new one; variables are lost")
    .argument('<room>', 'id, unique prefix of an id, or path')
    .option('--kernel <name>', 'kernelspec of the new kernel')
    .option('--reset', 'although kernels of this room ran out of memory again and again')
    .action((room: string, options: JsonOption & { kernel?: string; reset?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/restart-kernel.ts')).run(c, {
          room,
          kernel: options.kernel,
          reset: options.reset === true,
        }),
      ),
    )

  command(program, 'keep', 'how long an idle kernel is kept when nobody is in the room')
    .argument('<room>', 'id, unique prefix of an id, or path')
    .argument('<time>', 'such as 90s, 45m, 12h or 7d; "pinned": for ever; "default": 30 minutes')
    .action((room: string, time: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/keep.ts')).run(c, { room, time })),
    )

  command(program, 'close', "end a room's kernel and detach everybody; the record stays")
    .argument('<room>', 'id, unique prefix of an id, or path')
    .action((room: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/close.ts')).run(c, { room })),
    )

  kernelsCommand(program, act)
}

interface WhereOptions extends JsonOption {
  prefix?: string
  sysPrefix?: boolean
}

function kernelsCommand(program: Command, act: Act): void {
  const kernels = command(program, 'kernels', 'kernelspecs found, running kernels, standbys').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/kernels.ts')).run(c, {})),
  )
  const place = (name: string, description: string): Command =>
    kernels
      .command(name)
      .description(description)
      .addArgument(new Argument('<kernel>', 'the kernel that comes with roomd').choices(['javascript']))
      .addOption(new Option('--user', 'for this user (the default)').conflicts(['prefix', 'sysPrefix']))
      .addOption(new Option('--prefix <folder>', 'below FOLDER/share/jupyter').conflicts('sysPrefix'))
      .option('--sys-prefix', 'in the Python environment that is active')
      .option('--json', 'one JSON value on stdout')
  const where = (options: WhereOptions) =>
    options.sysPrefix
      ? { kind: 'sys-prefix' as const }
      : options.prefix === undefined
        ? { kind: 'user' as const }
        : { kind: 'prefix' as const, path: options.prefix }
  // `--json` before the subcommand's name belongs to the command above.
  const asJson = (options: JsonOption): boolean => json(options) || json(kernels.opts())

  place('install', 'make it usable from Jupyter')
    .option('--print', 'show what would be written, write nothing')
    .action((_kernel: string, options: WhereOptions & { print?: boolean }) =>
      act(asJson(options), async (c) =>
        (await import('./commands/kernels-install.ts')).install(c, {
          where: where(options),
          print: options.print === true,
        }),
      ),
    )
  place('uninstall', 'take it away from Jupyter; roomd keeps it').action(
    (_kernel: string, options: WhereOptions) =>
      act(asJson(options), async (c) =>
        (await import('./commands/kernels-install.ts')).uninstall(c, { where: where(options) }),
      ),
  )
}

function projectCommands(program: Command, act: Act): void {
  const project = program.command('project').description('repositories whose rooms are made ahead of need')
  command(project, 'add', 'add a git repository; or change how its rooms are made')
    .argument('<source>', 'a working copy, or the address of a remote repository')
    .option('--name <name>', 'what to call it (default: the name of its folder)')
    .option('--kernel <kernel>', 'kernelspec, or path of an interpreter')
    .option('--interpreter <path>', 'interpreter, relative to the repository or absolute')
    .option('--setup <command>', 'shell command that prepares a workspace (may be repeated)', collect)
    .option('--preload <code>', 'code that each kernel runs when it has started (may be repeated)', collect)
    .option('--data <path>', 'data that is not in git, linked into workspaces (may be repeated)', collect)
    .option('--env <name=value>', 'variable of its kernels and setup (may be repeated)', collect)
    .option('--depth <count>', 'warm rooms kept ready, 0 to 3', wholeNumber)
    .option('--trust', 'let its code run: setup, preload, kernels')
    .action((source: string, options: JsonOption & ProjectAddOptions) =>
      act(json(options), async (c) =>
        (await import('./commands/project.ts')).run(c, {
          ...options,
          action: 'add',
          source,
          trust: options.trust === true,
        }),
      ),
    )
  command(project, 'list', 'projects').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('./commands/project.ts')).run(c, { action: 'list' })),
  )
  command(project, 'show', 'a project, its rooms and how to fetch their results')
    .argument('<project>', 'path, id or name')
    .action((name: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('./commands/project.ts')).run(c, { action: 'show', project: name }),
      ),
    )
  command(project, 'trust', 'let the code of a project run')
    .argument('<project>', 'path, id or name')
    .option('--revoke', 'not any more')
    .action((name: string, options: JsonOption & { revoke?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/project.ts')).run(c, {
          action: 'trust',
          project: name,
          trusted: options.revoke !== true,
        }),
      ),
    )
  command(project, 'remove', 'forget a project; rooms with work in them stay')
    .argument('<project>', 'path, id or name')
    .action((name: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('./commands/project.ts')).run(c, { action: 'remove', project: name }),
      ),
    )
  command(project, 'claim', 'get a room of a project, with a workspace of its own')
    .argument('<project>', 'path, id or name')
    .option('--kernel <name>', "another kernelspec than the project's")
    .option('--include-uncommitted', 'start from the working copy as it is')
    .option('--skip-warm', 'always a fresh room')
    .option('--force-fetch', 'fetch even if it was done a moment ago')
    .action((name: string, options: JsonOption & ProjectClaimOptions) =>
      act(json(options), async (c) =>
        (await import('./commands/project.ts')).run(c, {
          action: 'claim',
          project: name,
          kernel: options.kernel,
          includeUncommitted: options.includeUncommitted === true,
          skipWarm: options.skipWarm === true,
          forceFetch: options.forceFetch === true,
        }),
      ),
    )

  command(project, 'archive', 'give back the workspace of a room; its notebook can still be read')
    .argument('<room>', 'id, unique prefix of one, or path')
    .option('--force', 'also while somebody is in it')
    .action((room: string, options: JsonOption & { force?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/project.ts')).run(c, {
          action: 'archive',
          room,
          force: options.force === true,
        }),
      ),
    )

  command(program, 'pool', 'warm rooms that wait to be claimed').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('./commands/pool.ts')).run(c, {})),
  )
}

interface ProjectAddOptions {
  name?: string
  kernel?: string
  interpreter?: string
  setup?: string[]
  preload?: string[]
  data?: string[]
  env?: string[]
  depth?: number
  trust?: boolean
}

interface ProjectClaimOptions {
  kernel?: string
  includeUncommitted?: boolean
  skipWarm?: boolean
  forceFetch?: boolean
}

function agentCommands(program: Command, act: Act): void {
  const mcp = program
    .command('mcp')
    .description('MCP server on stdin and stdout, for agents')
    .option('--no-start', 'never start a daemon')
    .option('--dev', 'with tools to rebuild and restart from a source checkout')
    .addOption(
      new Option('--mode <mode>', 'with --dev: may it start and stop the daemon, or has it one of its own')
        .choices(['owner', 'attach', 'isolated'])
        .default('owner'),
    )
    .addOption(new Option('--child', 'the process behind the proxy').hideHelp())
    .addOption(new Option('--keeper <home>', 'ends an isolated daemon with its proxy').hideHelp())
    .action((options: McpOptions) =>
      act(false, async (c) => (await import('./commands/mcp.ts')).run(c, options)),
    )

  command(mcp, 'install', "write roomd into an agent's configuration")
    .addOption(
      new Option('--client <client>', 'whose configuration')
        .choices(['claude-code', 'codex', 'cursor', 'vscode', 'zed'])
        .makeOptionMandatory(),
    )
    .option('--hooks', 'also the hooks that keep the ledger of sessions by themselves (claude-code)')
    .option('--print', 'show what would be written, write nothing')
    .action((options: JsonOption & { client: string; print?: boolean; hooks?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/mcp-install.ts')).run(c, {
          client: options.client,
          print: options.print === true,
          hooks: options.hooks === true,
        }),
      ),
    )

  command(program, 'tool', "call an MCP tool's handler and print its structured result")
    .argument('<name>', 'name of the tool')
    .argument('[arguments]', 'arguments as a JSON object; "-" reads them from stdin')
    .option('--room <room>', 'the active session: id, unique prefix of an id, or path')
    .action((name: string, args: string | undefined, options: JsonOption & { room?: string }) =>
      act(true, async (c) =>
        (await import('./commands/tool.ts')).run(c, { name, arguments: args, room: options.room }),
      ),
    )
}

interface SessionListOptions extends JsonOption {
  project?: string
  limit: number
  archived?: boolean
}

function sessionCommands(program: Command, act: Act): void {
  const session = program.command('session').description('the ledger: records of what agents worked on')
  const listing = (name: string, description: string) =>
    command(session, name, description)
      .option('-p, --project <name>', 'of this project alone')
      .option('-n, --limit <count>', 'at most so many', wholeNumber, 20)
      .option('-a, --archived', 'also archived ones')

  listing('list', 'sessions, the last changed first').action((options: SessionListOptions) =>
    act(json(options), async (c) => (await import('./commands/session-list.ts')).run(c, options)),
  )

  listing('search', 'sessions in which words occur, the best first')
    .argument('<words...>', 'what to look for; a part of a word is enough')
    .option('--from <date>', 'changed at or after this date or time')
    .option('--to <date>', 'changed at or before this date or time')
    .action((words: string[], options: SessionListOptions & { from?: string; to?: string }) =>
      act(json(options), async (c) =>
        (await import('./commands/session-list.ts')).run(c, { ...options, keyword: words.join(' ') }),
      ),
    )

  command(session, 'show', 'one session: what was asked for, what came of it, what is to do')
    .argument('<session>', 'id, or a unique beginning of one')
    .action((id: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('./commands/session-show.ts')).run(c, { id })),
    )

  command(session, 'import', 'take over sessions of mcp-session-mgr; may be repeated')
    .option(
      '--root <dir>',
      'folder that holds them; default: where mcp-session-mgr keeps them, under ~/.claude',
    )
    .action((options: JsonOption & { root?: string }) =>
      act(json(options), async (c) =>
        (await import('./commands/session-import.ts')).run(c, { root: options.root }),
      ),
    )

  command(session, 'export', 'write all sessions as files, in the layout of mcp-session-mgr')
    .argument('<dir>', 'an empty or new folder')
    .option('--merge', 'into a folder that holds sessions already')
    .action((dir: string, options: JsonOption & { merge?: boolean }) =>
      act(json(options), async (c) =>
        (await import('./commands/session-export.ts')).run(c, { dir, merge: options.merge === true }),
      ),
    )

  session
    .command('hook')
    .description("one event of an agent's hooks, JSON on stdin; never blocks, always ends with 0")
    .argument('[event]', 'name of the event, such as UserPromptSubmit; default: hook_event_name of the input')
    .action((event = '') => act(false, async () => (await import('./hook/hook-command.ts')).runHook(event)))
}

function command(program: Command, name: string, description: string): Command {
  return program.command(name).description(description).option('--json', 'one JSON value on stdout')
}

function json(options: JsonOption): boolean {
  return options.json === true
}

/** An option that may be given several times. */
function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value]
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('expected a whole number.')
  return Number(text)
}

function days(text: string): number {
  const value = wholeNumber(text)
  if (value < 1 || value > 3660) throw new InvalidArgumentError('expected days, from 1 to 3660.')
  return value
}

/** Seconds as text to milliseconds. */
function seconds(text: string): number {
  const value = Number(text)
  if (!(value > 0) || value > 7 * 86_400) {
    throw new InvalidArgumentError('expected seconds, above 0 and at most 604800 (7 days).')
  }
  return value * 1000
}
