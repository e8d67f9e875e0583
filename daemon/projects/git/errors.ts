/** What git's messages mean to a person: no network, no access, no commits yet. Git runs in the C locale, so they are in English. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { DeputyEnd } from '../deputies.ts'

export type GitFailure =
  | 'no_git'
  | 'no_network'
  | 'no_access'
  | 'not_found'
  | 'no_repository'
  | 'foreign_owner'
  | 'no_commits'
  | 'no_space'
  | 'stalled'
  | 'damaged'
  | 'other'

const signs: readonly [RegExp, GitFailure][] = [
  [/detected dubious ownership/i, 'foreign_owner'],
  [/No space left on device/i, 'no_space'],
  [
    /Could not resolve host|Network is unreachable|Connection timed out|Connection refused|Could not connect|Operation timed out|No route to host|Temporary failure in name resolution|unable to connect|Failed to connect|Connection reset/i,
    'no_network',
  ],
  [
    /Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|Permission denied|HTTP 40[13]|returned error: 40[13]|Host key verification failed|access denied/i,
    'no_access',
  ],
  [/couldn't find remote ref HEAD|your current branch .* does not have any commits/i, 'no_commits'],
  [/Repository not found|returned error: 404/i, 'not_found'],
  [
    /does not appear to be a git repository|not a git repository|repository .* does not exist/i,
    'no_repository',
  ],
  [
    /bad object|object file .* is empty|loose object .* is corrupt|unable to read tree|packfile .* (?:cannot be accessed|is)|inflate:|index file corrupt|did not send all necessary objects|pack has|missing (?:blob|tree|commit)/i,
    'damaged',
  ],
]

export function failureOf(end: DeputyEnd): GitFailure {
  if (end.failure?.code === 'ENOENT' || end.code === 127) return 'no_git'
  if (end.ended === 'stalled' || end.ended === 'too_long') return 'stalled'
  for (const [sign, failure] of signs) if (sign.test(end.stderr)) return failure
  return 'other'
}

const advice: Record<GitFailure, string> = {
  no_git: 'git is not installed (or not on the PATH of the login shell); install it',
  no_network: 'there is no way to the remote at the moment; it is tried again later',
  no_access:
    'the remote refused access, and nobody is asked for a password here: set up a credential helper or an ssh agent that works without a terminal',
  not_found: 'the remote has no such repository, or does not show it to you',
  no_repository: 'there is no git repository; run "git init" there and commit something',
  foreign_owner:
    'the repository belongs to another user; git refuses to read it ("git config --global safe.directory" allows it)',
  no_commits: 'the repository has no commits yet; commit something, then try again',
  no_space: 'the disk is full; free some space',
  stalled: 'nothing was heard of git for too long; it was ended. Look at the network and try again',
  damaged: 'the repository is damaged; "git fsck" in it tells where',
  other: 'git says why',
}

/** Failures that may pass by themselves. */
const passing: ReadonlySet<GitFailure> = new Set(['no_network', 'stalled', 'no_space', 'other'])

/** A git command that failed. */
export class GitError extends RoomdError {
  readonly failure: GitFailure
  readonly stderr: string

  constructor(what: string, end: DeputyEnd) {
    const failure = failureOf(end)
    // Where the advice says all there is, git's own words add nothing.
    const said = failure === 'no_repository' || failure === 'no_commits' ? '' : lastLines(end.stderr)
    const how = end.failure ? end.failure.message : end.signal ? `git was ended by ${end.signal}` : ''
    super('git_failed', `${what}: ${advice[failure]}${said || how ? `.\n${said || how}` : ''}`, {
      retryable: passing.has(failure),
      cause: { failure, stderr: said },
    })
    this.failure = failure
    this.stderr = end.stderr
  }
}

/** The lines that matter: no progress, no hints. */
export function lastLines(text: string): string {
  return text
    .split(/[\n\r]+/)
    .map((line) => line.trim())
    .filter(
      (line) =>
        line !== '' &&
        !/^(?:hint:|remote: (?:Counting|Compressing|Total)|Receiving|Resolving|Cloning into)/.test(line),
    )
    .slice(-6)
    .join('\n')
    .slice(-2000)
}
