/**
 * What ids and names may look like. The reference's rule for names that become file names (one name, no separators), for every id and
 * every tool; and a bound, since names outlive the tools that made them. Ids are keys here, never paths, but exports write them.
 */
import { type Failure, valueError } from './outcome.ts'

/** Bytes of UTF-8: what a file name holds, with room for a prefix and an ending. */
const LONGEST = 200

/** null, or why `value` cannot be the id or name that the caller's parameter `what` says. */
export function nameFault(value: string, what: string): Failure | null {
  if (value === '') return valueError(`${what} must not be empty`)
  if (value === '.' || value === '..')
    return valueError(`${what} must not be a directory reference: "${value}"`)
  if (value.includes('\0')) return valueError(`${what} must not contain null bytes`)
  if (/[/\\:]/.test(value)) return valueError(`${what} must be a single name, not a path: ${shown(value)}`)
  if (/\p{Cc}/u.test(value)) return valueError(`${what} must not contain control characters: ${shown(value)}`)
  if (/\p{Cs}/u.test(value)) return valueError(`${what} is not valid Unicode`)
  if (Buffer.byteLength(value) > LONGEST)
    return valueError(`${what} must have at most ${LONGEST} bytes, and has ${Buffer.byteLength(value)}`)
  return null
}

/** A prefix of ids (`TASK`): as names, but it may be empty. */
export function prefixFault(value: string, what: string): Failure | null {
  if (value === '') return null
  return (
    nameFault(value, what) ??
    (Buffer.byteLength(value) > 60 ? valueError(`${what} must have at most 60 bytes`) : null)
  )
}

/** Tags: any text of a line, at most so many bytes. */
export function tagFault(tag: string): Failure | null {
  if (/\p{Cc}|\p{Cs}/u.test(tag))
    return valueError(`a tag must not contain control characters: ${shown(tag)}`)
  if (Buffer.byteLength(tag) > LONGEST)
    return valueError(`a tag must have at most ${LONGEST} bytes: ${shown(tag)}`)
  return null
}

function shown(value: string): string {
  const cut = [...value].slice(0, 60).join('')
  return JSON.stringify(cut === value ? value : `${cut}…`)
}
