/**
 * The hooks of an agent's host that keep the ledger: entries in its settings, one for each event, beside those that others have there.
 * Known for Claude Code: `hooks` in `settings.json`, `{EVENT: [{matcher, hooks: [{type, command, timeout}]}]}`.
 */
import { homedir } from 'node:os'
import { join } from 'node:path'
import { DamagedFile } from './damaged-file.ts'
import { type InstallOutcome, rewrite } from './install.ts'
import { setJsonEntry } from './json-entry.ts'
import { parseJson } from './json-with-comments.ts'
import type { ServerCommand } from './server-command.ts'

/** Events that the ledger uses; those of tools take a matcher. */
const events: Readonly<Record<string, string | null>> = {
  SessionStart: 'startup|resume|clear|compact',
  UserPromptSubmit: null,
  PostToolUse: '*',
  Stop: null,
  SessionEnd: null,
}

/** Seconds that the host waits; a hook is done in a fraction of one. */
const TIMEOUT = 5

export function hooksFile(env: Readonly<Record<string, string | undefined>>): string {
  return join(env.CLAUDE_CONFIG_DIR || join(env.HOME || homedir(), '.claude'), 'settings.json')
}

/** Doing it again changes nothing; an entry of ours that names another program is replaced. */
export function installHooks(
  path: string,
  server: ServerCommand,
  options: { print: boolean },
): InstallOutcome {
  return rewrite({ client: 'claude-code', path }, (text) => withHooks(text, server), options)
}

function withHooks(text: string, server: ServerCommand): string {
  const root = parseJson(text)
  const hooks = root === null ? {} : objectAt(text, root.value, 'hooks')
  const entries = Object.fromEntries(
    Object.entries(events).map(([event, matcher]) => {
      const present = hooks[event] ?? []
      if (!Array.isArray(present)) throw new DamagedFile(text, 0, `hooks.${event} is no list`)
      return [event, withOurs(present, event, matcher, hookCommand(server, event))]
    }),
  )
  return setJsonEntry(text, ['hooks'], entries)
}

function objectAt(text: string, value: unknown, key: string): Record<string, unknown> {
  const member = (value as Record<string, unknown> | null)?.[key]
  if (member === undefined) return {}
  if (typeof member === 'object' && member !== null && !Array.isArray(member))
    return member as Record<string, unknown>
  throw new DamagedFile(text, 0, `"${key}" is no object`)
}

/** Ours in the place where it was, else at the end. */
function withOurs(
  present: readonly unknown[],
  event: string,
  matcher: string | null,
  command: string,
): unknown[] {
  const ours = {
    ...(matcher === null ? {} : { matcher }),
    hooks: [{ type: 'command', command, timeout: TIMEOUT }],
  }
  const at = present.findIndex((entry) => isOurs(entry, event))
  if (at < 0) return [...present, ours]
  return present.flatMap((entry, index) => (index === at ? [ours] : isOurs(entry, event) ? [] : [entry]))
}

/** An entry that runs nothing but our hook of this event. */
function isOurs(entry: unknown, event: string): boolean {
  const hooks = (entry as { hooks?: unknown } | null)?.hooks
  if (!Array.isArray(hooks) || hooks.length !== 1) return false
  const command = (hooks[0] as { command?: unknown } | null)?.command
  return (
    typeof command === 'string' &&
    /roomd\S*['"]? /.test(command) &&
    command.endsWith(` session hook ${event}`)
  )
}

/** For a shell. The server's arguments end with `mcp`; here it is another command of the same program. */
function hookCommand({ command, args, env }: ServerCommand, event: string): string {
  const words = [command, ...args.slice(0, -1), 'session', 'hook', event]
  const settings = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`)
  return [...settings, ...words.map(quoted)].join(' ')
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
