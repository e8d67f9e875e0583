/**
 * Writes our entry into a client's configuration. A file that cannot be read is not touched; one that is changed is kept beside it as
 * it was; writing is atomic, follows links, and keeps the file's mode. Doing it again changes nothing.
 */

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { readIfThere } from '../../../protocol/small-files.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { type ClientFile, SERVER_NAME } from './clients.ts'
import { DamagedFile } from './damaged-file.ts'
import { setJsonEntry } from './json-entry.ts'
import type { ServerCommand } from './server-command.ts'
import { setTomlEntry } from './toml-entry.ts'

export interface InstallOutcome {
  readonly client: string
  readonly path: string
  /** false: the file says it already, or it was only to be shown. */
  readonly changed: boolean
  readonly backup: string | null
  /** The file's new content. */
  readonly content: string
}

/** How often the file may change under us: clients write theirs while they run. */
const ATTEMPTS = 3

export function install(
  target: ClientFile,
  server: ServerCommand,
  options: { print: boolean },
): InstallOutcome {
  const keys = [...target.under, SERVER_NAME]
  const set = target.format === 'toml' ? setTomlEntry : setJsonEntry
  return rewrite(target, (text) => set(text, keys, target.entry(server)), options)
}

/** `edit` gives the file's new text; done to that again it must change nothing. */
export function rewrite(
  target: { readonly client: string; readonly path: string },
  edit: (text: string) => string,
  options: { print: boolean },
): InstallOutcome {
  for (let attempt = 1; ; attempt++) {
    // A configuration that is a link (dotfiles) stays one.
    const path = existsSync(target.path) ? realpathSync(target.path) : target.path
    const before = readIfThere(path)
    const content = edited(target, before ?? '', edit)
    const outcome = { client: target.client, path: target.path, content }
    if (options.print || content === before) return { ...outcome, changed: false, backup: null }
    const backup = write(path, before, content)
    if (backup !== false) return { ...outcome, changed: true, backup }
    if (attempt === ATTEMPTS) {
      throw new CommandFailure(
        ExitCode.failed,
        'conflict',
        `${target.path} was changed by another program each time it was to be written; nothing was changed.`,
        `close ${target.client}, then try again`,
      )
    }
  }
}

function edited(
  target: { readonly client: string; readonly path: string },
  before: string,
  edit: (text: string) => string,
): string {
  try {
    const content = edit(before)
    // What we write must be readable, and then say what we meant: doing it again changes nothing.
    if (edit(content) !== content) throw new Error(`${target.path} did not take the entry`)
    return content
  } catch (error) {
    if (!(error instanceof DamagedFile)) throw error
    throw new CommandFailure(
      ExitCode.failed,
      'invalid_argument',
      `${target.path} cannot be read: line ${error.line}, column ${error.column}: ${error.message}. Nothing was changed.`,
      `roomd mcp install --client ${target.client}   (after the file is repaired or moved away)`,
    )
  }
}

/** The backup's path, null when there was no file, false when the file changed meanwhile and nothing was written. */
function write(path: string, before: string | null, content: string): string | null | false {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const stamp = new Date().toISOString().replace(/[-:]|\.\d+/g, '')
  const fresh = `${path}.roomd-${process.pid}`
  writeFileSync(fresh, content, { mode: 0o600 })
  try {
    if (before !== null) chmodSync(fresh, statSync(path).mode & 0o777)
    if (readIfThere(path) !== before) return false
    const backup = before === null ? null : freeName(`${path}.backup-${stamp}`)
    if (backup !== null) copyFileSync(path, backup)
    renameSync(fresh, path)
    return backup
  } finally {
    rmSync(fresh, { force: true })
  }
}

function freeName(wanted: string): string {
  for (let count = 1; ; count++) {
    const name = count === 1 ? wanted : `${wanted}-${count}`
    if (!existsSync(name)) return name
  }
}
