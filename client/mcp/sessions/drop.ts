/** Why there is no active session, and the call that brings the last one back. */
import { type ErrorCode, RoomdError } from '../../../protocol/errors.ts'
import type { NextCall } from '../results/errors.ts'
import { connectArguments, type Target, textOf } from './target.ts'

export type DropReason = 'switched' | 'evicted' | 'disconnected' | 'daemon_lost' | 'superseded'

export interface Drop {
  readonly reason: DropReason
  readonly notebook_id: string | null
  readonly path: string | null
  readonly target: Target
  /** What the daemon said, where it said something. */
  readonly message?: string | undefined
}

const codes: Record<DropReason, ErrorCode> = {
  switched: 'notebook_not_ready',
  disconnected: 'notebook_not_ready',
  evicted: 'notebook_unavailable',
  daemon_lost: 'daemon_lost',
  superseded: 'session_superseded',
}

const words: Record<DropReason, string> = {
  switched: 'another notebook was activated instead',
  disconnected: 'it was disconnected on request',
  evicted: 'it is gone',
  daemon_lost: 'the daemon went away and the session could not be brought back',
  superseded: 'a newer process of this client took it over',
}

/** What a tool answers that needs a session where there is none. */
export function noSessionError(drop: Drop | null): RoomdError {
  if (!drop) {
    return new RoomdError(
      'notebook_not_ready',
      'no notebook is active on this connection, and none was named. Call connect_notebook with a path (list_notebooks shows what there is), create_notebook, or pass "notebook"',
      { retryable: false, next: { tool: 'list_notebooks', arguments: {} } },
    )
  }
  const { reason, notebook_id, path, target, message } = drop
  const name = path ?? notebook_id ?? 'the last one'
  const said = message === undefined ? '' : ` (${message})`
  const next = { tool: 'connect_notebook', arguments: connectArguments(target) }
  const advice =
    reason === 'evicted' && target.kind === 'path'
      ? `connect_notebook opens the file again if it is there; create_notebook makes a new one`
      : `connect_notebook ${JSON.stringify(next.arguments)} brings it back`
  return new RoomdError(
    codes[reason],
    `no notebook is active: the last was ${name}; ${words[reason]}${said}. ${advice}`,
    { retryable: reason === 'daemon_lost', cause: { reason, notebook_id, path }, next },
  )
}

/** Where waiting was given up: what is still on its way, and how to go on. */
export function stillComingError(waited: { ms: number; target: Target | null; away: boolean }): RoomdError {
  const { ms, target, away } = waited
  const what = target
    ? `the session of ${textOf(target)} is still being brought back`
    : 'the notebook that is to be active is still being opened'
  const why = away ? '; the daemon does not answer' : ''
  return new RoomdError(
    away ? 'daemon_lost' : 'notebook_not_ready',
    `${what} after ${ms / 1000} s${why}. Nothing was done. It goes on in the background; call again`,
    {
      retryable: true,
      ...(target ? { cause: { pending_rejoin: textOf(target) } } : {}),
      // Without a daemon, what `daemon_lost` always advises: which of the two waits ended first is chance.
      ...(away ? {} : { next: nextFor(target) }),
    },
  )
}

function nextFor(target: Target | null): NextCall {
  return target
    ? { tool: 'connect_notebook', arguments: connectArguments(target) }
    : { tool: 'list_active_notebooks', arguments: {} }
}

/** Why a session was lost, by what its room failed with. */
export function reasonOf(error: RoomdError): DropReason {
  return error.code === 'notebook_unavailable' || error.code === 'not_found' ? 'evicted' : 'daemon_lost'
}
