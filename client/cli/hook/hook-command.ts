/**
 * `roomd session hook EVENT`: one event of an agent's hooks, JSON on stdin. Never in the host's way: it ends with 0 whatever happens,
 * in a moment, and writes nothing to stdout but the context that the daemon has for a session that goes on. Without a daemon that
 * answers the event goes to the spool.
 *
 * The way here is short (see main.ts): no schemas, no SDK, no table of commands.
 */
import { randomUUID } from 'node:crypto'
import { appendFileSync, mkdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { type Environment, type Places, resolvePlaces } from '../../../protocol/places.ts'
import { rawCall } from './raw-call.ts'
import { type HookEvent, spoolEvent } from './spool-event.ts'

/** Milliseconds that a daemon has to answer. Its usual answer takes a few. */
const PATIENCE = 1_000
/** Milliseconds that the host has to write its event. */
const INPUT_PATIENCE = 2_000
const LARGEST_INPUT = 64 * 1024 * 1024
/** UTF-16 units kept of each text inside what a tool was given and gave; a prompt is kept as it is. */
const KEPT_TEXT = 4_000
const LOG_BYTES = 1024 * 1024

/** `event`: its name; empty, the input's. Resolves when the event is with the daemon or in the spool, or is told to be lost. Never rejects. */
export async function runHook(event: string, env: Environment = process.env): Promise<0> {
  let places: Places | null = null
  try {
    places = resolvePlaces(env)
    await handle(event, places)
  } catch (error) {
    note(places, `the event${event === '' ? '' : ` ${event}`} is lost: ${(error as Error).message}`)
  }
  return 0
}

async function handle(name: string, places: Places): Promise<void> {
  const input = readInput(await readStdin())
  if (typeof input === 'string') {
    note(places, `the event${name === '' ? '' : ` ${name}`} is lost: ${input}`)
    return
  }
  const named = name === '' ? input.hook_event_name : name
  if (typeof named !== 'string' || named === '') {
    note(places, 'an event is lost: neither the command line nor hook_event_name says which one it is')
    return
  }
  const event: HookEvent = {
    event: named.slice(0, 100),
    event_id: randomUUID(),
    at: Date.now(),
    input: shortened(input),
  }
  try {
    const answer = await rawCall(places.socket, 'session_hook', event, PATIENCE)
    const context = (answer as { context?: unknown } | null)?.context
    if (typeof context === 'string' && context !== '') process.stdout.write(`${context}\n`)
  } catch (error) {
    // It may have arrived all the same: the daemon knows the event by its id, and takes it once.
    spoolEvent(places.hookSpool, event)
    note(
      places,
      `no daemon took the event ${event.event} (${(error as Error).message}); it is kept for the next one`,
    )
  }
}

function readStdin(): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let size = 0
    const timer = setTimeout(() => reject(new Error('stdin was not closed')), INPUT_PATIENCE)
    process.stdin.on('data', (piece: Buffer) => {
      size += piece.length
      if (size > LARGEST_INPUT) reject(new Error(`stdin has more than ${LARGEST_INPUT} bytes`))
      else pieces.push(piece)
    })
    process.stdin.on('error', reject)
    process.stdin.on('end', () => {
      clearTimeout(timer)
      resolve(Buffer.concat(pieces).toString('utf8'))
    })
  })
}

/** The object, or why it is none. */
function readInput(text: string): Record<string, unknown> | string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
    return 'what came on stdin is no JSON object'
  } catch (error) {
    return `what came on stdin is no JSON: ${(error as Error).message}`
  }
}

/** Contents of files are not wanted: only which files and tools. */
function shortened(input: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(input).map(([key, value]) => [key, key === 'prompt' ? value : cut(value)]),
  )
}

function cut(value: unknown): unknown {
  if (typeof value === 'string')
    return value.length <= KEPT_TEXT ? value : `${value.slice(0, KEPT_TEXT)}… (${value.length} characters)`
  if (Array.isArray(value)) return value.map(cut)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, cut(member)]))
}

/** One line on stderr, and in a file, since hosts show neither. */
function note(places: Places | null, text: string): void {
  process.stderr.write(`roomd session hook: ${text}\n`)
  if (places === null) return
  const file = join(places.logs, 'hook.log')
  try {
    mkdirSync(places.logs, { recursive: true, mode: 0o700 })
    if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > LOG_BYTES) truncateSync(file)
    appendFileSync(file, `${new Date().toISOString()} ${text}\n`, { mode: 0o600 })
  } catch {
    // A log that cannot be written must not get in the way; stderr has said it.
  }
}
