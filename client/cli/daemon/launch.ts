/**
 * Starts the background daemon. Any number of processes may do so at once: each starts one, the daemon's lock lets one live, and
 * all of them see that one answer. The new process has a session of its own, so that nothing that ends us ends it.
 */
import { spawn } from 'node:child_process'
import { closeSync, existsSync, type FSWatcher, mkdirSync, openSync, rmSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import { KERNEL_MARK } from '../../../protocol/kernel-mark.ts'
import type { Places } from '../../../protocol/places.ts'
import { programFile } from '../../../protocol/programs.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { lastLines } from '../log-lines.ts'
import { notServing } from './described.ts'
import { probe } from './probe.ts'
import { type StartTicket, takeStartTicket } from './start-ticket.ts'

/** Milliseconds until a start that shows no daemon is a failure: a busy machine may need 10 s, and an end is told at once. */
const START_BOUND = 30_000
/** A look without an event: watching may be impossible, or the folder not be there yet. */
const LOOK_AGAIN = 100

export interface LaunchOutcome {
  /** false: the daemon was there, or somebody else started it at the same time. */
  readonly started: boolean
}

/** File that catches what a daemon writes before and beside its log. */
export function daemonOut(places: Places): string {
  return join(places.logs, 'daemon.out')
}

/** Resolves when a daemon answers. Forgets that `roomd stop` wanted none. */
export async function launchDaemon(places: Places): Promise<LaunchOutcome> {
  rmSync(places.stopped, { force: true })
  const before = await probe(places.socket)
  if (before.state === 'answers') return { started: false }
  if (before.state !== 'absent') throw notServing(before, places)
  return { started: await startAndWait(places) }
}

/** For commands that need a daemon: starts one unless that is not wanted. */
export async function ensureDaemon(
  places: Places,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const presence = await probe(places.socket)
  if (presence.state === 'answers') return
  if (presence.state !== 'absent') throw notServing(presence, places)
  if (existsSync(places.stopped)) {
    throw new CommandFailure(
      ExitCode.unreachable,
      'daemon_lost',
      'no daemon is running: it was stopped by `roomd stop` and stays so until it is started.',
      'roomd start',
    )
  }
  if (autostartForbidden(env)) {
    throw new CommandFailure(
      ExitCode.unreachable,
      'daemon_lost',
      `no daemon answers at ${places.socket}, and ROOMD_NO_AUTOSTART forbids to start one.`,
      'roomd start',
    )
  }
  await startAndWait(places)
}

export function autostartForbidden(env: Readonly<Record<string, string | undefined>>): boolean {
  const value = env.ROOMD_NO_AUTOSTART
  return value !== undefined && value !== '' && value !== '0'
}

interface StartedProcess {
  /** How it ended, once it has. `failed`: not because another daemon serves the home already. */
  ended: { readonly how: string; readonly failed: boolean } | null
  onEnd: () => void
}

function startProcess(places: Places): StartedProcess {
  const program = programFile('daemon')
  mkdirSync(places.logs, { recursive: true, mode: 0o700 })
  const out = openSync(daemonOut(places), 'a', 0o600)
  try {
    // The root folder: a daemon must not hold the folder in which somebody happened to start it.
    const child = spawn(process.execPath, [program], {
      detached: true,
      stdio: ['ignore', out, out],
      cwd: '/',
      env: ownEnvironment(),
    })
    const process_: StartedProcess = { ended: null, onEnd: () => {} }
    const end = (how: string, failed: boolean) => {
      process_.ended = { how, failed }
      process_.onEnd()
    }
    child.once('exit', (code, signal) =>
      end(signal ? `was ended by ${signal}` : `ended with code ${code}`, code !== 0),
    )
    child.once('error', (error) => end(`could not be started: ${error.message}`, true))
    child.unref()
    return process_
  } finally {
    closeSync(out)
  }
}

/** Started from a cell of a notebook, the daemon outlives that notebook's kernel. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const { [KERNEL_MARK]: _mark, ...rest } = process.env
  return rest
}

/**
 * Dials until somebody answers, and starts a process of our own unless another starter lives. Ours may find the home served and
 * end: the winner's answer counts as well. When it failed and a dial after that finds nobody, waiting is no use.
 */
async function startAndWait(places: Places): Promise<boolean> {
  const end = Date.now() + START_BOUND
  let ticket: StartTicket | null = null
  let started: StartedProcess | null = null
  try {
    for (;;) {
      if (started === null) {
        ticket = takeStartTicket(places)
        if (ticket !== null) started = startProcess(places)
      }
      const failed = started?.ended?.failed === true
      const presence = await probe(places.socket, Math.max(500, end - Date.now()))
      if (presence.state === 'answers') return started !== null && started.ended === null
      if (presence.state === 'refused') throw notServing(presence, places)
      if (Date.now() >= end || (failed && presence.state === 'absent')) {
        if (presence.state === 'silent') throw notServing(presence, places)
        throw startFailed(places, started)
      }
      await somethingHappens(places, started, Math.min(LOOK_AGAIN, Math.max(1, end - Date.now())))
    }
  } finally {
    ticket?.release()
  }
}

/** Resolves when the socket's folder changes, when our process ends, or after `ms`. */
function somethingHappens(places: Places, started: StartedProcess | null, ms: number): Promise<void> {
  return new Promise((resolve) => {
    let watcher: FSWatcher | undefined
    const finish = () => {
      clearTimeout(timer)
      watcher?.close()
      if (started !== null) started.onEnd = () => {}
      resolve()
    }
    const timer = setTimeout(finish, ms)
    if (started !== null) started.onEnd = finish
    const folder = dirname(places.socket)
    if (!existsSync(folder)) return
    try {
      watcher = watch(folder, finish)
      watcher.on('error', finish)
    } catch {
      // The folder went, or there are no watches left: the timer looks again.
    }
  })
}

function startFailed(places: Places, started: StartedProcess | null): CommandFailure {
  const how = started?.ended?.how ?? `does not answer after ${START_BOUND / 1000} s`
  const files = [daemonOut(places), join(places.logs, 'daemon.log')]
  const tails = files.flatMap((file) => {
    const lines = lastLines(file, 8)
    return lines.length === 0 ? [] : [`  ${file}:`, ...lines.map((line) => `    ${line}`)]
  })
  return new CommandFailure(
    ExitCode.unreachable,
    'daemon_lost',
    [`the daemon that was started ${how}.`, ...tails].join('\n'),
    'roomd daemon   (runs it in the foreground)',
  )
}
