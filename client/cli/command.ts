/** What every command gets, and what it is: a function that resolves with its exit code. */
import { type Places, resolvePlaces } from '../../protocol/places.ts'
import type { ExitCode } from './exit-codes.ts'
import { openTerminal, type Terminal } from './terminal.ts'

export interface CommandContext {
  readonly terminal: Terminal
  readonly env: Readonly<Record<string, string | undefined>>
  /** Folder that relative paths of arguments start from. */
  readonly cwd: string
  readonly places: Places
}

/** The one export `run` of each module in commands/. Rejects with CommandFailure or RoomdError. */
export type CommandRun<Arguments> = (context: CommandContext, args: Arguments) => Promise<ExitCode>

export function openContext(json: boolean): CommandContext {
  return {
    terminal: openTerminal(json),
    env: process.env,
    cwd: process.cwd(),
    places: resolvePlaces(),
  }
}
