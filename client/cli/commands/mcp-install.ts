/** `roomd mcp install`: writes roomd into an agent's configuration, or shows what it would write. */
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { type ClientName, clientFile } from '../mcp-install/clients.ts'
import { install } from '../mcp-install/install.ts'
import { serverCommand } from '../mcp-install/server-command.ts'

export const run: CommandRun<{ client: string; print: boolean }> = async (context, { client, print }) => {
  const { terminal, env } = context
  const target = clientFile(client as ClientName, env)
  const outcome = install(target, serverCommand(env), { print })
  if (terminal.json) {
    terminal.result(outcome)
    return ExitCode.done
  }
  if (print) {
    terminal.note(`${outcome.path} would be:`)
    terminal.write(outcome.content)
    return ExitCode.done
  }
  if (!outcome.changed) {
    terminal.line(`${outcome.path} has roomd already; nothing was changed`)
    return ExitCode.done
  }
  terminal.line(`roomd is written into ${outcome.path}`)
  if (outcome.backup !== null) terminal.line(`as it was before: ${outcome.backup}`)
  terminal.line(target.afterwards)
  return ExitCode.done
}
