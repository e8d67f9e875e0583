/** What commands have in common: how one is begun, `--json`, and how texts of options become values. */
import { type Command, InvalidArgumentError } from 'commander'
import type { CommandContext } from '../command.ts'

/** Runs a command's code with its surroundings; what it throws is reported, and its exit code kept. */
export type Act = (json: boolean, run: (context: CommandContext) => Promise<number>) => Promise<void>

export interface JsonOption {
  json?: boolean
}

export function command(program: Command, name: string, description: string): Command {
  return program.command(name).description(description).option('--json', 'one JSON value on stdout')
}

export function json(options: JsonOption): boolean {
  return options.json === true
}

/** An option that may be given several times. */
export function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value]
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('expected a whole number.')
  return Number(text)
}

export function days(text: string): number {
  const value = wholeNumber(text)
  if (value < 1 || value > 3660) throw new InvalidArgumentError('expected days, from 1 to 3660.')
  return value
}

/** Seconds as text to milliseconds. */
export function seconds(text: string): number {
  const value = Number(text)
  if (!(value > 0) || value > 7 * 86_400) {
    throw new InvalidArgumentError('expected seconds, above 0 and at most 604800 (7 days).')
  }
  return value * 1000
}
