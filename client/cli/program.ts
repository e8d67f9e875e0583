/**
 * The command line as a whole: its groups of commands (names, arguments and help are in `usage/`), and what becomes of a failure.
 * Each command's code is loaded when it is called and not before, so that `roomd version` costs no SDK. Exit codes are in
 * `exit-codes.ts`.
 */
import { Command, CommanderError } from 'commander'
import { VERSION } from '../../protocol/version.ts'
import { openContext } from './command.ts'
import { ExitCode } from './exit-codes.ts'
import { agentCommands } from './usage/agent.ts'
import { daemonCommands } from './usage/daemon.ts'
import { kernelsCommand } from './usage/kernels.ts'
import { notebookCommands } from './usage/notebook.ts'
import type { Act } from './usage/options.ts'
import { projectCommands } from './usage/project.ts'
import { sessionCommands } from './usage/session.ts'
import { tokenCommands } from './usage/token.ts'

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

function buildProgram(act: Act): Command {
  const program = new Command('roomd')
    .description('Live notebooks that agents, editors and people share, kept by a daemon.')
    .version(VERSION, '-V, --version')
    .usage('COMMAND [options]')
    .exitOverride()
    .configureHelp({ sortSubcommands: false })
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'roomd: ')) })
  daemonCommands(program, act)
  tokenCommands(program, act)
  notebookCommands(program, act)
  kernelsCommand(program, act)
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
