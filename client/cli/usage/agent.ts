/** What agents call: the MCP server, and its tools from a shell. */
import { type Command, Option } from 'commander'
import { type Act, command, type JsonOption, json } from './options.ts'

interface McpOptions {
  start: boolean
  dev?: boolean
  mode: 'owner' | 'attach' | 'isolated'
  child?: boolean
  keeper?: string
}

export function agentCommands(program: Command, act: Act): void {
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
      act(false, async (c) => (await import('../commands/mcp.ts')).run(c, options)),
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
        (await import('../commands/mcp-install.ts')).run(c, {
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
        (await import('../commands/tool.ts')).run(c, { name, arguments: args, room: options.room }),
      ),
    )
}
