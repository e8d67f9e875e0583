/**
 * New ids, and names of files. A file name is relative to the reference's tree; where no tree is kept it is only a name,
 * `session:///…`.
 */
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import type { Reader } from '../store/transaction.ts'
import { stamp } from './times.ts'

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

function suffix(): string {
  return Array.from({ length: 4 }, () => letters[randomInt(letters.length)]).join('')
}

/** `SESSION-20260414-093015-K7PX`; another suffix while one is taken. */
export function newSessionId(reader: Reader, now: number, random = suffix): string {
  return freeName(
    `SESSION-${stamp(now)}`,
    random,
    (id) => reader.get('SELECT 1 FROM ledger_sessions WHERE session_id = ?', id) === undefined,
  )
}

/** `TASK-20260414-093015-K7PX`. */
export function newWorkId(reader: Reader, type: string, now: number, random = suffix): string {
  return freeName(
    `${type}-${stamp(now)}`,
    random,
    (id) => reader.get('SELECT 1 FROM ledger_work_items WHERE work_id = ?', id) === undefined,
  )
}

function freeName(stem: string, random: () => string, free: (id: string) => boolean): string {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const id = `${stem}-${random()}`
    if (free(id)) return id
  }
  throw new Error(`no free id begins with ${stem}`)
}

/** Names within the folder of a project. */
export const fileIn = {
  saved: (id: string) => `session-${part(id)}.md`,
  context: (id: string) => `context-${part(id)}.json`,
} as const

/** Where the tree keeps what; `/` between parts. Parts are encoded so that they are file names everywhere. */
export const treeFile = {
  saved: (project: string, id: string) => `sessions/${part(project)}/${fileIn.saved(id)}`,
  context: (project: string, id: string) => `sessions/${part(project)}/${fileIn.context(id)}`,
  archived: (project: string, id: string) => `sessions/_archived/${part(project)}/${fileIn.saved(id)}`,
  state: (project: string) => `.state/${part(project)}.json`,
  log: (id: string, file: string) => `logs/sessions/${part(id)}/${file}`,
  chain: '.chain-index.json',
  current: '.current-session.json',
  archiveFolder: 'sessions/_archived',
} as const

/** The file under the mirror, or a name where there is none. */
export function fileName(mirror: string | null, relative: string): string {
  return mirror === null ? `session:///${relative}` : join(mirror, relative)
}

const reserved = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/i

/** As a file name: percent-encoded where a platform cannot have it, so that it can be read back. */
export function part(name: string): string {
  const encoded = name.replace(/[%/\\:*?"<>|\x00-\x1f\x7f]|[. ]$|^\.{1,2}$/g, (c) =>
    [...Buffer.from(c)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
  return reserved.test(encoded)
    ? `%${encoded.charCodeAt(0).toString(16).toUpperCase()}${encoded.slice(1)}`
    : encoded
}

/** The name that `part` made a file name of. */
export function nameOfPart(file: string): string {
  try {
    return decodeURIComponent(file)
  } catch {
    // A percent sign that encodes nothing: the name was never encoded.
    return file
  }
}
