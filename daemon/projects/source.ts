/**
 * What a person names as a project: a folder of this machine that is a git working copy (or a bare repository), or the address of a
 * remote one. The canonical key makes two spellings of one place one project; it never holds credentials.
 */
import { realpath, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, isAbsolute, join } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { Git } from './git/git.ts'

export type Source =
  /** `folder`: top of the working copy, or the bare repository itself. `gitDir`: its own git folder. */
  | { readonly kind: 'local'; readonly folder: string; readonly gitDir: string; readonly bare: boolean }
  /** `url`: without credentials. */
  | { readonly kind: 'remote'; readonly url: string }

export interface NamedSource {
  readonly source: Source
  readonly key: string
  readonly name: string
}

const REMOTE = /^(?:https?|ssh|git|ftps?):\/\/|^[\w.-]+@[\w.-]+:(?!\/\/)/i

export function looksRemote(text: string): boolean {
  return REMOTE.test(text)
}

/** `text`: an absolute path or an address. Throws `invalid_argument`, `not_found`, GitError. */
export async function findSource(git: Git, text: string): Promise<NamedSource> {
  if (looksRemote(text)) {
    const url = withoutCredentials(text)
    const name = nameOf(url)
    return { source: { kind: 'remote', url }, key: canonicalUrl(url), name }
  }
  const given = text.startsWith('file://') ? decodeURIComponent(new URL(text).pathname) : text
  const path = given === '~' || given.startsWith('~/') ? join(homedir(), given.slice(1)) : given
  if (!isAbsolute(path)) {
    throw new RoomdError(
      'invalid_argument',
      `"${text}" is neither an absolute path nor the address of a git repository (https://…, ssh://…, user@host:path)`,
    )
  }
  const info = await stat(path).catch(() => null)
  if (info === null)
    throw new RoomdError('not_found', `there is no folder ${path}`, {
      next: { tool: 'list_projects', arguments: {} },
    })
  if (!info.isDirectory())
    throw new RoomdError('invalid_argument', `${path} is a file; a project is a folder`)
  return localSource(git, await realpath(path))
}

/** The working copy that a folder belongs to. */
export async function localSource(git: Git, folder: string): Promise<NamedSource> {
  const told = await git.run(['rev-parse', '--is-bare-repository', '--absolute-git-dir'], {
    cwd: folder,
    what: `${folder} cannot be a project`,
  })
  // A path may hold line breaks, and end with a space.
  const { bareText = '', gitDir = '' } = /^(?<bareText>\w+)\n(?<gitDir>[\s\S]*)\n$/.exec(told)?.groups ?? {}
  const bare = bareText === 'true'
  const top = bare
    ? gitDir
    : (
        await git.run(['rev-parse', '--show-toplevel'], {
          cwd: folder,
          what: `${folder} cannot be a project`,
        })
      ).replace(/\n$/, '')
  const real = await realpath(top)
  return {
    source: { kind: 'local', folder: real, gitDir: await realpath(gitDir), bare },
    key: real,
    name: basename(real).replace(/\.git$/, '') || 'project',
  }
}

export function withoutCredentials(address: string): string {
  if (!/^[a-z+]+:\/\//i.test(address)) return address
  const url = new URL(address)
  url.password = ''
  // The user of an ssh address is part of the place; that of https is a name to log in with.
  if (/^https?:$/.test(url.protocol)) url.username = ''
  return url.toString()
}

/** Host in lower case, no `.git`, no closing slash, ssh's short form written out. */
export function canonicalUrl(address: string): string {
  const short = /^(?:([\w.-]+)@)?([\w.-]+):(?!\/\/)(.*)$/.exec(address)
  const url = new URL(short ? `ssh://${short[1] ? `${short[1]}@` : ''}${short[2]}/${short[3]}` : address)
  url.password = ''
  if (/^https?:$/.test(url.protocol)) url.username = ''
  return url
    .toString()
    .replace(/\/+$/, '')
    .replace(/\.git$/, '')
}

function nameOf(url: string): string {
  const last =
    url
      .replace(/[/\\]+$/, '')
      .split(/[/:]/)
      .at(-1) ?? ''
  return last.replace(/\.git$/, '') || 'project'
}
