/**
 * `roomd config get|set|unset|path`. Works on the file, with or without a daemon: a change is checked as a whole before it is
 * written, and written by replacing the file. A running daemon goes by what it read when it started.
 */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { checkSettings, configFile, readConfigFile, type Settings } from '../../../protocol/config.ts'
import type { RoomdError } from '../../../protocol/errors.ts'
import { replaceFile } from '../../../protocol/small-files.ts'
import type { CommandContext, CommandRun } from '../command.ts'
import { probe } from '../daemon/probe.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'

/** `key`: names joined by dots. A `value` that is no JSON is text. */
export type ConfigAction =
  | { readonly action: 'path' }
  | { readonly action: 'get'; readonly key: string | undefined }
  | { readonly action: 'set'; readonly key: string; readonly value: string }
  | { readonly action: 'unset'; readonly key: string }

type Json = Record<string, unknown>

export const run: CommandRun<ConfigAction> = async (context, args) => {
  const file = configFile(context.places)
  switch (args.action) {
    case 'path':
      show(context, file)
      return ExitCode.done
    case 'get': {
      const settings = checkSettings(readConfigFile(file), file)
      show(context, args.key === undefined ? settings : read(settings, args.key))
      return ExitCode.done
    }
    case 'set':
    case 'unset': {
      const written = readConfigFile(file)
      const value = args.action === 'set' ? parsed(args.value) : undefined
      const changed = change(written, args.key.split('.'), value)
      const settings = checkChange(changed, args.key, file)
      write(file, changed)
      if (context.terminal.json) show(context, settings)
      if ((await probe(context.places.socket)).state === 'answers')
        context.terminal.note('the running daemon takes it up when it is started again: roomd restart')
      return ExitCode.done
    }
  }
}

function show({ terminal }: CommandContext, value: unknown): void {
  if (terminal.json) terminal.result(value)
  else terminal.line(typeof value === 'string' ? value : JSON.stringify(value, null, 2))
}

function read(settings: Json, key: string): unknown {
  let value: unknown = settings
  for (const name of key.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, name)) {
      throw new CommandFailure(
        ExitCode.failed,
        'not_found',
        `there is no setting "${key}".`,
        'roomd config get',
      )
    }
    value = value[name]
  }
  return value
}

/** A copy of `settings` in which `names` leads to `value`; undefined takes the key out. */
function change(settings: Json, names: readonly string[], value: unknown): Json {
  const [name, ...rest] = names
  if (name === undefined || name === '' || name === '__proto__') {
    throw new CommandFailure(
      ExitCode.usage,
      'usage',
      'a setting is named by names joined with dots, such as http.port.',
      'roomd config get',
    )
  }
  const copy: Json = { ...settings }
  const inner = Object.hasOwn(copy, name) ? copy[name] : undefined
  if (rest.length > 0) copy[name] = change(isObject(inner) ? inner : {}, rest, value)
  else if (value === undefined) delete copy[name]
  else copy[name] = value
  return copy
}

/** A change that makes a valid file invalid is refused by its own name; a file that was invalid before is named itself. */
function checkChange(changed: Json, key: string, file: string): Settings {
  try {
    return checkSettings(changed, file)
  } catch (error) {
    checkSettings(readConfigFile(file), file)
    const reason = ((error as RoomdError).detail as { reason: string }).reason
    throw new CommandFailure(
      ExitCode.failed,
      'invalid_argument',
      `"${key}" cannot be set so: ${reason}. Nothing was changed.`,
      'roomd config get',
    )
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function write(file: string, settings: Json): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  replaceFile(file, `${JSON.stringify(settings, null, 2)}\n`, { outlives: 'machine' })
}
