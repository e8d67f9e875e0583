/**
 * The token of a remote daemon, where its URL names none: from the settings (`remotes.NAME`: a URL, and the environment variable
 * or the file that holds the token), else `ROOMD_TOKEN`, which is meant for the daemon that `ROOMD_TOKEN_URL` names, or for one on
 * this machine. A URL in a tool call may come from anywhere: a token is only ever sent to the daemon it is for.
 */
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { readSettings, type Settings } from '../../protocol/config.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { type Environment, resolvePlaces } from '../../protocol/places.ts'

type Remote = Settings['remotes'][string]

/** `daemon`: what is dialled. undefined: none is known. Throws `invalid_argument` for settings that lead nowhere. */
export function tokenFor(daemon: string, env: Environment): string | undefined {
  const { remotes } = readSettings(resolvePlaces(env))
  for (const [name, remote] of Object.entries(remotes)) {
    if (originOf(remote.url) === originOf(daemon)) return tokenOf(name, remote, env)
  }
  const { ROOMD_TOKEN, ROOMD_TOKEN_URL } = env
  if (!ROOMD_TOKEN) return undefined
  const meant = ROOMD_TOKEN_URL ? originOf(ROOMD_TOKEN_URL) === originOf(daemon) : isLoopback(daemon)
  return meant ? ROOMD_TOKEN : undefined
}

/** A daemon listens on its own machine alone, so that most are reached through a tunnel's end on this one. */
function isLoopback(daemon: string): boolean {
  return ['127.0.0.1', 'localhost', '[::1]'].includes(new URL(daemon).hostname)
}

function tokenOf(name: string, { token_env, token_file }: Remote, env: Environment): string | undefined {
  if (token_env !== undefined) {
    const token = env[token_env]?.trim()
    if (token) return token
    throw lost(name, `the environment variable ${token_env} is not set`)
  }
  if (token_file === undefined) return undefined
  const path = token_file.startsWith('~/') ? join(homedir(), token_file.slice(2)) : token_file
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    throw lost(name, `${path} cannot be read: ${(error as Error).message}`)
  }
}

function lost(name: string, why: string): RoomdError {
  return new RoomdError(
    'invalid_argument',
    `the token of the remote "${name}" (setting remotes.${name}) is missing: ${why}`,
  )
}

function originOf(url: string): string {
  const { protocol, host } = new URL(url)
  return `${protocol === 'wss:' || protocol === 'https:' ? 'wss' : 'ws'}://${host}`
}
