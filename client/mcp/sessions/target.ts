/**
 * What a session can be opened by: a file, a room's id, or a room of a remote daemon. A target has keys; two targets with a key in
 * common are one. A path is canonical (symlinks resolved), so that two spellings of a file are one target.
 */
import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseOutside, RoomdError } from '../../../protocol/errors.ts'
import { NotebookId } from '../../../protocol/ids.ts'

export type Target =
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'id'; readonly id: NotebookId }
  | RemoteTarget

/** `ws(s)://host[:port][/path]?notebook=ID[&token=…]`; `url` is the whole of it. */
export interface RemoteTarget {
  readonly kind: 'remote'
  readonly url: string
  /** Without `notebook` and `token`: what is dialled, and which remote daemon it is. */
  readonly daemon: string
  readonly token: string | undefined
  readonly id: NotebookId
}

/**
 * Reads a target as tools, `ROOMD_REJOIN` and `--room` give it. A text that is a UUID is an id, also where a file of that name
 * exists (`./NAME` names the file); relative paths start from `cwd`. Throws `invalid_argument`.
 */
export function parseTarget(text: string, cwd: string): Target {
  if (text.trim() === '') throw new RoomdError('invalid_argument', 'the notebook is named by an empty text')
  if (/^wss?:\/\//i.test(text)) return parseRemote(text)
  const id = NotebookId.safeParse(text)
  if (id.success) return { kind: 'id', id: id.data }
  return { kind: 'path', path: canonicalPath(pathOf(text, cwd)) }
}

/** An absolute path of a text that is a path, a `file:` URL or begins with `~/`. */
export function pathOf(text: string, cwd: string): string {
  if (/^file:\/\//i.test(text)) return fileURLToPath(text)
  if (text === '~' || text.startsWith('~/')) return join(homedir(), text.slice(1))
  return resolve(cwd, text)
}

/** Symlinks resolved as far as the path exists. */
export function canonicalPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    // Not there (yet): its folder may be.
    try {
      return join(realpathSync(dirname(path)), basename(path))
    } catch {
      return path
    }
  }
}

function parseRemote(text: string): RemoteTarget {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new RoomdError('invalid_argument', `"${text}" is no URL; expected wss://HOST/?notebook=ID`)
  }
  const notebook = url.searchParams.get('notebook')
  if (notebook === null) {
    throw new RoomdError(
      'invalid_argument',
      'the URL names no notebook; expected wss://HOST/?notebook=ID with the id of a room there',
    )
  }
  const token = url.searchParams.get('token') ?? undefined
  url.searchParams.delete('notebook')
  url.searchParams.delete('token')
  const id = parseOutside(NotebookId, notebook, 'the notebook in the URL')
  return { kind: 'remote', url: text, daemon: url.href, token, id }
}

export const pathKey = (path: string): string => `path:${path}`
export const idKey = (id: string): string => `id:${id}`

export function keyOf(target: Target): string {
  switch (target.kind) {
    case 'path':
      return pathKey(target.path)
    case 'id':
      return idKey(target.id)
    case 'remote':
      return `remote:${target.daemon}#${target.id}`
  }
}

/** As a tool argument or `ROOMD_REJOIN` has it. */
export function textOf(target: Target): string {
  switch (target.kind) {
    case 'path':
      return target.path
    case 'id':
      return target.id
    case 'remote':
      return target.url
  }
}

/** Arguments of the `connect_notebook` call that opens it. */
export function connectArguments(target: Target): Record<string, string> {
  switch (target.kind) {
    case 'path':
      return { path: target.path }
    case 'id':
      return { notebook_id: target.id }
    case 'remote':
      return { target: target.url }
  }
}

/** As results name it. */
export function namesOf(target: Target): { notebook_id: string | null; path: string | null } {
  return {
    notebook_id: target.kind === 'path' ? null : target.id,
    path: target.kind === 'path' ? target.path : null,
  }
}
