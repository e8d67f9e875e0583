/** Who is the active session, with attaches that a test ends when it likes. Named after the scenarios of the conformance list. */
import { expect, test } from 'vitest'
import { Activations, type Flight, supersededError } from '../../client/mcp/sessions/activations.ts'
import { RoomdError } from '../../protocol/errors.ts'

interface Session {
  readonly name: string
  readonly keys: readonly string[]
  bound: boolean
}

interface Attach {
  readonly key: string
  readonly flight: Flight
  generation: number
  succeed(...keys: string[]): Promise<void>
  fail(error?: RoomdError): Promise<void>
}

/** Lets everything that can happen now happen. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve()
}

class Stage {
  readonly discarded: string[] = []
  readonly displaced: string[] = []
  readonly attaches: Attach[] = []
  readonly activations = new Activations<Session>({
    keys: (session) => session.keys,
    reusable: (session) => session.bound,
    discard: (session) => {
      this.discarded.push(session.name)
      return supersededError({ cause: { notebook_id: session.name } })
    },
    displaced: (session) => this.displaced.push(session.name),
  })
  #made = 0

  request(key: string, aliases?: () => Promise<readonly string[]>) {
    return {
      key,
      aliases,
      attach: (flight: Flight) =>
        new Promise<Session>((resolve, reject) => {
          flight.signal.addEventListener('abort', () => reject(new RoomdError('client_aborted', 'left')))
          const attach: Attach = {
            key,
            flight,
            generation: 0,
            succeed: async (...keys) => {
              resolve({ name: `${key}#${++this.#made}`, keys: [key, ...keys], bound: true })
              await settle()
            },
            fail: async (error = new RoomdError('not_found', 'gone')) => {
              reject(error)
              await settle()
            },
          }
          this.attaches.push(attach)
          try {
            attach.generation = flight.takeGeneration()
          } catch (error) {
            reject(error)
          }
        }),
    }
  }

  activate(key: string, aliases?: () => Promise<readonly string[]>, signal?: AbortSignal) {
    const call = this.activations.activate(this.request(key, aliases), signal)
    call.catch(() => {})
    return call
  }

  attach(index: number): Attach {
    const attach = this.attaches[index]
    if (!attach) throw new Error(`there is no attach ${index}`)
    return attach
  }

  get active(): string | null {
    return this.activations.active?.name ?? null
  }
}

const code = (error: unknown) => (error as RoomdError).code

test('coalesces_same_target_flight: concurrent calls share one attach and its result', async () => {
  const stage = new Stage()
  const calls = Array.from({ length: 5 }, () => stage.activate('path:/a'))
  await settle()
  expect(stage.attaches).toHaveLength(1)
  await stage.attach(0).succeed('id:a')
  const results = await Promise.all(calls)
  expect(new Set(results.map(({ session }) => session)).size).toBe(1)
  expect(results.map(({ how }) => how)).toEqual(['installed', 'joined', 'joined', 'joined', 'joined'])
})

test('different_target_supersedes_generation: the second target makes the first leader a loser', async () => {
  const stage = new Stage()
  const first = stage.activate('path:/a')
  const second = stage.activate('path:/b')
  await settle()
  expect(stage.attach(1).generation).toBeGreaterThan(stage.attach(0).generation)
  await stage.attach(1).succeed()
  await stage.attach(0).succeed()
  await expect(first).rejects.toMatchObject({ code: 'session_superseded' })
  expect((await second).session.name).toBe(stage.active)
  expect(stage.discarded).toHaveLength(1)
  expect(stage.displaced).toEqual([])
})

test('aba_switch_does_not_follow_stale_first_target: A, B, A starts a new flight for the third call', async () => {
  const stage = new Stage()
  const first = stage.activate('path:/a')
  stage.activate('path:/b')
  const third = stage.activate('path:/a')
  await settle()
  expect(stage.attaches.map(({ key }) => key)).toEqual(['path:/a', 'path:/b', 'path:/a'])
  await stage.attach(0).succeed()
  await expect(first).rejects.toMatchObject({ code: 'session_superseded' })
  await stage.attach(2).succeed()
  expect((await third).how).toBe('installed')
})

test('failed_replacement_attempt_does_not_supersede_installed_identity', async () => {
  const stage = new Stage()
  stage.activate('path:/a')
  await settle()
  await stage.attach(0).succeed()
  const before = stage.active
  const failing = stage.activate('path:/b')
  await settle()
  await stage.attach(1).fail()
  await expect(failing).rejects.toMatchObject({ code: 'not_found' })
  expect(stage.active).toBe(before)
  expect(stage.discarded).toEqual([])
  const again = await stage.activate('path:/a')
  expect(again.how).toBe('already')
})

test('dropped_leader_wakes_followers: a flight that dies wakes all with its error', async () => {
  const stage = new Stage()
  const calls = [stage.activate('path:/a'), stage.activate('path:/a'), stage.activate('path:/a')]
  await settle()
  await stage.attach(0).fail(new RoomdError('sync_failed', 'no'))
  for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'sync_failed' })
})

test('a leader that leaves does not end the flight of its followers', async () => {
  const stage = new Stage()
  const leader = new AbortController()
  const first = stage.activate('path:/a', undefined, leader.signal)
  const second = stage.activate('path:/a')
  leader.abort()
  await expect(first).rejects.toMatchObject({ code: 'client_aborted' })
  await stage.attach(0).succeed()
  expect((await second).session.name).toBe(stage.active)
})

test('a flight that everybody left is ended and installs nothing', async () => {
  const stage = new Stage()
  const leader = new AbortController()
  const first = stage.activate('path:/a', undefined, leader.signal)
  leader.abort()
  await expect(first).rejects.toMatchObject({ code: 'client_aborted' })
  expect(stage.attach(0).flight.signal.aborted).toBe(true)
  await stage.attach(0).succeed()
  expect(stage.active).toBeNull()
})

test('superseded_connect_install_preserves_previous_slot_occupant, and its payload reaches the loser', async () => {
  const stage = new Stage()
  stage.activate('path:/a')
  await settle()
  await stage.attach(0).succeed()
  const loser = stage.activate('create:1')
  stage.activate('path:/b')
  await settle()
  await stage.attach(2).succeed()
  const occupant = stage.active
  await stage.attach(1).succeed()
  const error = await loser.catch((thrown: unknown) => thrown)
  expect(code(error)).toBe('session_superseded')
  expect((error as RoomdError).detail).toMatchObject({ notebook_id: stage.discarded[0] })
  expect(stage.active).toBe(occupant)
})

test('supersede_while_awaiting_the_slot is refused at the moment of installing', async () => {
  const stage = new Stage()
  const first = stage.activate('path:/a')
  await settle()
  const arriving = stage.attach(0).succeed()
  // The attach is done; before its turn comes the user disconnects.
  stage.activations.deactivate()
  await arriving
  await expect(first).rejects.toMatchObject({ code: 'session_superseded' })
  expect(stage.active).toBeNull()
  expect(stage.discarded).toHaveLength(1)
})

test('cold_path_can_alias_uuid_into_same_flight: an id that names the path in flight joins it', async () => {
  const stage = new Stage()
  const byPath = stage.activate('path:/a')
  await settle()
  const byId = stage.activate('id:a', async () => ['path:/a'])
  await settle()
  expect(stage.attaches).toHaveLength(1)
  await stage.attach(0).succeed('id:a')
  expect((await byId).session).toBe((await byPath).session)
  expect(stage.discarded).toEqual([])
})

test('a path flight waits with its end for a call that may mean the same room', async () => {
  const stage = new Stage()
  const byPath = stage.activate('path:/a')
  let tell: (keys: readonly string[]) => void = () => {}
  const byId = stage.activate('id:a', () => new Promise((resolve) => (tell = resolve)))
  await stage.attach(0).succeed('id:a')
  expect(stage.active).toBeNull()
  tell(['path:/a'])
  expect((await byId).session).toBe((await byPath).session)
})

test('an id that names another room starts its own flight and wins', async () => {
  const stage = new Stage()
  const byPath = stage.activate('path:/a')
  const byId = stage.activate('id:b', async () => ['path:/b'])
  await settle()
  expect(stage.attaches).toHaveLength(2)
  await stage.attach(0).succeed('id:a')
  await stage.attach(1).succeed()
  await expect(byPath).rejects.toMatchObject({ code: 'session_superseded' })
  expect((await byId).session.name).toBe(stage.active)
})

test('three names of one room in flight are one session', async () => {
  const stage = new Stage()
  const calls = [
    stage.activate('path:/a'),
    stage.activate('id:a', async () => ['path:/a']),
    stage.activate('path:/link', async () => ['id:a']),
  ]
  await settle()
  await stage.attach(0).succeed()
  const sessions = (await Promise.all(calls)).map(({ session }) => session)
  expect(new Set(sessions).size).toBe(1)
})

test('a key that the attach found counts for later calls', async () => {
  const stage = new Stage()
  stage.activate('path:/a')
  await settle()
  stage.attach(0).flight.alias('id:a')
  const joined = stage.activate('id:a')
  await stage.attach(0).succeed()
  expect((await joined).how).toBe('joined')
})

test('reuse_requires_connected_readable_replica: an unbound session is attached anew', async () => {
  const stage = new Stage()
  stage.activate('path:/a')
  await settle()
  await stage.attach(0).succeed()
  const { active } = stage.activations
  if (active) active.bound = false
  const again = stage.activate('path:/a')
  await settle()
  await stage.attach(1).succeed()
  expect((await again).how).toBe('installed')
  expect(stage.displaced).toHaveLength(1)
})

test('async_publication_never_overwrites_tool_installed_session: a rejoin loses to an explicit connect', async () => {
  const stage = new Stage()
  const rejoin = stage.activations.rejoin(stage.request('path:/a'), () => true)
  rejoin.catch(() => {})
  await settle()
  const explicit = stage.activate('path:/b')
  await settle()
  await stage.attach(1).succeed()
  await stage.attach(0).succeed()
  await expect(rejoin).rejects.toMatchObject({ code: 'session_superseded' })
  expect((await explicit).session.name).toBe(stage.active)
})

test('explicit_disconnect_cancels_pending_automatic_rejoin', async () => {
  const stage = new Stage()
  const rejoin = stage.activations.rejoin(stage.request('path:/a'), () => true)
  rejoin.catch(() => {})
  await settle()
  expect(stage.activations.intend()).toBe(true)
  await stage.attach(0).succeed()
  await expect(rejoin).rejects.toMatchObject({ code: 'session_superseded' })
  expect(stage.active).toBeNull()
  expect(stage.discarded).toHaveLength(1)
})

test('an explicit connect to what is being rejoined shares the flight', async () => {
  const stage = new Stage()
  const rejoin = stage.activations.rejoin(stage.request('path:/a'), () => true)
  await settle()
  const explicit = stage.activate('path:/a')
  await stage.attach(0).succeed()
  expect((await explicit).session).toBe(await rejoin)
  expect(stage.attaches).toHaveLength(1)
})

test('a rejoin does not begin while something is active, or on its way', async () => {
  const stage = new Stage()
  stage.activate('path:/a')
  expect(await stage.activations.rejoin(stage.request('path:/b'), () => true)).toBeNull()
  await settle()
  await stage.attach(0).succeed()
  expect(await stage.activations.rejoin(stage.request('path:/b'), () => true)).toBeNull()
})

test('a rejoin whose own condition no longer holds is not published', async () => {
  const stage = new Stage()
  const rejoin = stage.activations.rejoin(stage.request('path:/a'), () => false)
  rejoin.catch(() => {})
  await settle()
  await stage.attach(0).succeed()
  await expect(rejoin).rejects.toMatchObject({ code: 'session_superseded' })
  expect(stage.active).toBeNull()
})

test('generations count on from what the daemon knows', async () => {
  const stage = new Stage()
  stage.activations.raise(41)
  stage.activate('path:/a')
  await settle()
  expect(stage.attach(0).generation).toBe(42)
  stage.activations.raise(7)
  stage.activate('path:/b')
  await settle()
  expect(stage.attach(1).generation).toBe(43)
})
