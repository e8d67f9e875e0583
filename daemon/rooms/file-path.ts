/** Canonical paths: one file, one spelling, so that two names of one file are one room. */
import { realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, resolve } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import { placeOf } from '../documents/file-place.ts'

/** Resolves symlinks and dots of an absolute path to an existing file, or throws what is wrong with it. */
export async function existingFile(path: string): Promise<string> {
  mustBeAbsolute(path)
  let canonical: string
  try {
    canonical = await realpath(path)
  } catch (error) {
    throw fileError(path, error)
  }
  const info = await stat(canonical)
  if (info.isFile()) return canonical
  throw new RoomdError(
    'invalid_argument',
    `${path} is a ${info.isDirectory() ? 'folder' : 'special file'}, not a notebook file`,
    { cause: { path } },
  )
}

/** The canonical path a new file would have; its folder must exist. One that is there already: the caller decides what that means. */
export async function newFile(path: string): Promise<string> {
  mustBeAbsolute(path)
  const whole = resolve(path)
  try {
    return await placeOf(whole)
  } catch (error) {
    throw fileError(dirname(whole), error)
  }
}

function mustBeAbsolute(path: string): void {
  if (path.includes('\0')) throw new RoomdError('invalid_argument', 'the path holds a NUL character')
  if (isAbsolute(path)) return
  throw new RoomdError(
    'invalid_argument',
    `the path "${path}" is relative; the daemon needs an absolute one (it has no working directory of yours)`,
  )
}

function fileError(path: string, error: unknown): RoomdError {
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    return new RoomdError(
      'not_found',
      `there is no file ${path}; create_notebook makes one, list_notebooks shows those known`,
      { cause: { path }, next: { tool: 'create_notebook', arguments: { path } } },
    )
  }
  if (code === 'EACCES' || code === 'EPERM') {
    return new RoomdError('forbidden', `${path} may not be read by this user (${code})`, { cause: { path } })
  }
  return new RoomdError('invalid_argument', `${path} cannot be opened: ${String(error)}`, { cause: { path } })
}
