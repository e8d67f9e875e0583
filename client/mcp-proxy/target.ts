/**
 * Which room a new child should rejoin, and which rooms the old one remembered as parked. Pure: a state and one finished call give
 * the next state. Learns only from results that succeeded; what a call merely asked for counts where the result says nothing.
 *
 * Rules (lifecycle.md, target tracking): a remote URL stays as it is; a local file keeps its canonical path; otherwise the id;
 * `save_notebook` promotes id to path; a path is never replaced by a later id; disconnecting the tracked session clears it,
 * disconnecting another keeps it; failures change nothing.
 */
import { isAbsolute, resolve } from 'node:path'
import { isObject, type JsonObject } from './jsonrpc.ts'

export interface SessionRef {
  readonly id: string | null
  /** Absolute. */
  readonly path: string | null
  /** `ws(s)://…` exactly as the caller wrote it. */
  readonly url: string | null
}

export interface Tracked {
  readonly active: SessionRef | null
  /** Most recently left last; at most PARKED_MAX, as in the child. */
  readonly parked: readonly SessionRef[]
  /** Highest activation generation seen; a result with a lower one lost a race and changes nothing. */
  readonly generation: number
}

export interface FinishedCall {
  readonly tool: string
  readonly arguments: JsonObject
  readonly result: JsonObject
}

export const PARKED_MAX = 8
export const NOTHING_TRACKED: Tracked = { active: null, parked: [], generation: 0 }

const activating = new Set(['connect_notebook', 'create_notebook', 'claim_room'])

/** The state after a call of the client was answered. `cwd`: what a relative path argument is relative to. */
export function track(before: Tracked, call: FinishedCall, cwd: string): Tracked {
  if (call.result.isError === true) return before
  const said = isObject(call.result.structuredContent) ? call.result.structuredContent : {}
  if (activating.has(call.tool)) {
    // A room that is claimed without becoming active.
    if (call.tool === 'claim_room' && call.arguments.activate === false) return before
    return activated(before, call.arguments, said, cwd)
  }
  if (call.tool === 'save_notebook') return saved(before, call.arguments, said)
  if (call.tool === 'disconnect_notebook') return disconnected(before, call.arguments, said)
  return before
}

/** What ROOMD_REJOIN says: URL, absolute path or id. */
export function rejoinTarget(session: SessionRef | null): string | null {
  return session === null ? null : (session.url ?? session.path ?? session.id)
}

/** What `notebook` of another call says to mean this session: the id, which never changes, else the path. */
export function notebookArgument(session: SessionRef): string | null {
  return session.id ?? session.path
}

/** A target that the child named itself: in its handoff, or of a rejoin that succeeded. Never lets an id replace a path. */
export function named(before: Tracked, target: string): Tracked {
  const session = parseTarget(target)
  if (before.active === null) return { ...before, active: session }
  if (session.id !== null && (before.active.id === session.id || before.active.id === null)) {
    return { ...before, active: { ...before.active, id: session.id } }
  }
  if (session.path !== null && before.active.path === null && before.active.url === null) {
    return { ...before, active: { ...before.active, path: session.path } }
  }
  return rejoinTarget(before.active) === target ? before : { ...before, active: session }
}

/** A child that ended took its parked sessions with it. */
export function forgetParked(before: Tracked): Tracked {
  return before.parked.length === 0 ? before : { ...before, parked: [] }
}

export function parseTarget(text: string): SessionRef {
  if (isRemote(text)) return { id: null, path: null, url: text }
  if (isAbsolute(text)) return { id: null, path: text, url: null }
  return { id: text, path: null, url: null }
}

function activated(before: Tracked, asked: JsonObject, said: JsonObject, cwd: string): Tracked {
  const generation = typeof said.activation_generation === 'number' ? said.activation_generation : null
  if (generation !== null && generation < before.generation) return before
  const session = sessionOf(before, asked, said, cwd)
  if (session === null) return before
  const others = before.parked.filter((parked) => !sameSession(parked, session))
  const left = before.active !== null && !sameSession(before.active, session) ? [before.active] : []
  return {
    active: session,
    parked: [...others, ...left].slice(-PARKED_MAX),
    generation: generation ?? before.generation,
  }
}

function sessionOf(before: Tracked, asked: JsonObject, said: JsonObject, cwd: string): SessionRef | null {
  const target = text(asked.target)
  const url = target !== null && isRemote(target) ? target : null
  const askedPath = text(asked.path) ?? (target !== null && looksLikePath(target) ? target : null)
  const askedId = text(asked.notebook_id) ?? (target !== null && askedPath === null ? target : null)
  const id = text(said.notebook_id) ?? (url === null ? askedId : null)
  const saidPath = text(said.path)
  const known = before.active !== null && id !== null && before.active.id === id ? before.active.path : null
  const path = saidPath !== null && isAbsolute(saidPath) ? saidPath : (known ?? absolute(askedPath, cwd))
  const session: SessionRef = { id, path: url === null ? path : null, url }
  return rejoinTarget(session) === null ? null : session
}

function saved(before: Tracked, asked: JsonObject, said: JsonObject): Tracked {
  const { active } = before
  const path = text(said.path)
  if (path === null || !isAbsolute(path)) return before
  const id = text(said.notebook_id)
  const promote = (session: SessionRef): SessionRef => ({ ...session, id: session.id ?? id, path })
  if (active !== null && (active.id === null ? asked.notebook === undefined : active.id === id)) {
    return { ...before, active: promote(active) }
  }
  if (id === null || !before.parked.some((session) => session.id === id)) return before
  return {
    ...before,
    parked: before.parked.map((session) => (session.id === id ? promote(session) : session)),
  }
}

function disconnected(before: Tracked, asked: JsonObject, said: JsonObject): Tracked {
  const { active } = before
  const id = text(said.notebook_id)
  const named = text(asked.notebook) ?? text(asked.notebook_id) ?? text(asked.path)
  const means = (session: SessionRef) =>
    (id !== null && session.id === id) ||
    (named !== null && [session.id, session.path, session.url].includes(named))
  if (said.was === 'parked') return { ...before, parked: before.parked.filter((s) => !means(s)) }
  if (active === null) return before
  // Two ids decide. Else: without a name it is the active session that goes, and the result's `was` says so too.
  const clears =
    id !== null && active.id !== null
      ? id === active.id
      : named === null || means(active) || said.was === 'active' || said.was === 'pending_rejoin'
  if (clears) return { ...before, active: null }
  return { ...before, parked: before.parked.filter((session) => !means(session)) }
}

function sameSession(a: SessionRef, b: SessionRef): boolean {
  if (a.id !== null && b.id !== null) return a.id === b.id
  return rejoinTarget(a) === rejoinTarget(b)
}

function isRemote(target: string): boolean {
  return /^(?!file:)[a-z][a-z0-9+.-]*:\/\//i.test(target)
}

function looksLikePath(target: string): boolean {
  return !isRemote(target) && (isAbsolute(target) || /[\\/]|\.ipynb$/.test(target))
}

function absolute(path: string | null, cwd: string): string | null {
  return path === null ? null : resolve(cwd, path)
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
