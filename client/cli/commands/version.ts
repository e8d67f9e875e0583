/** `roomd version`: of this program, not of the daemon, which `roomd status` tells. */
import { API_VERSION, PROTOCOL_HIGHEST, PROTOCOL_LOWEST, VERSION } from '../../../protocol/version.ts'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'

export const run: CommandRun<Record<string, never>> = async ({ terminal }) => {
  if (terminal.json) {
    terminal.result({
      version: VERSION,
      api_version: API_VERSION,
      protocol: { lowest: PROTOCOL_LOWEST, highest: PROTOCOL_HIGHEST },
      node: process.version,
    })
  } else terminal.line(`roomd ${VERSION}`)
  return ExitCode.done
}
