/** `roomd mcp install`: writes roomd into an agent's configuration, and with `--hooks` its hooks; or shows what it would write. */
import type { CommandContext, CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { type ClientName, clientFile } from '../mcp-install/clients.ts'
import { hooksFile, installHooks } from '../mcp-install/hooks.ts'
import { type InstallOutcome, install } from '../mcp-install/install.ts'
import { serverCommand } from '../mcp-install/server-command.ts'

export const run: CommandRun<{ client: string; print: boolean; hooks: boolean }> = async (
  context,
  { client, print, hooks },
) => {
  const { terminal, env } = context
  if (hooks && client !== 'claude-code') {
    throw new CommandFailure(
      ExitCode.usage,
      'usage',
      `hooks are known for claude-code only, not for ${client}; nothing was changed`,
      `roomd mcp install --client ${client}`,
    )
  }
  const target = clientFile(client as ClientName, env)
  const server = serverCommand(env)
  const outcome = install(target, server, { print })
  const hooked = hooks ? installHooks(hooksFile(env), server, { print }) : null
  if (terminal.json) {
    terminal.result(hooked === null ? outcome : { ...outcome, hooks: hooked })
    return ExitCode.done
  }
  tell(context, outcome, print)
  if (hooked !== null) tell(context, hooked, print)
  if (!print && (outcome.changed || hooked?.changed)) terminal.line(target.afterwards)
  return ExitCode.done
}

function tell({ terminal }: CommandContext, outcome: InstallOutcome, print: boolean): void {
  if (print) {
    terminal.note(`${outcome.path} would be:`)
    terminal.write(outcome.content)
    return
  }
  if (!outcome.changed) {
    terminal.line(`${outcome.path} has roomd already; nothing was changed`)
    return
  }
  terminal.line(`roomd is written into ${outcome.path}`)
  if (outcome.backup !== null) terminal.line(`as it was before: ${outcome.backup}`)
}
