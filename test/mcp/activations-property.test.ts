/** transition_sequences_preserve_activation_invariants: random calls, arrivals, failures and losses in any order. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Activations, type Flight, supersededError } from '../../client/mcp/sessions/activations.ts'
import { RoomdError } from '../../protocol/errors.ts'

interface Session {
  readonly id: number
  readonly room: string
  readonly generation: number
}

/** Two rooms have a path and an id, which only a lookup can pair. */
const names: Record<string, string> = {
  'path:/a': 'A',
  'id:a': 'A',
  'path:/b': 'B',
  'id:b': 'B',
  'path:/c': 'C',
}
const aliases: Record<string, string[]> = {
  A: ['path:/a', 'id:a'],
  B: ['path:/b', 'id:b'],
  C: ['path:/c'],
}

type Step =
  | { do: 'activate'; key: string; lookup: boolean }
  | { do: 'rejoin'; key: string }
  | { do: 'arrive'; which: number; ok: boolean }
  | { do: 'lookup'; which: number }
  | { do: 'disconnect' }
  | { do: 'lose' }
  | { do: 'leave'; which: number }
  | { do: 'turn' }

const key = fc.constantFrom(...Object.keys(names))
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('activate' as const), key, lookup: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('rejoin' as const), key }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('arrive' as const), which: fc.nat(5), ok: fc.boolean() }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('lookup' as const), which: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'disconnect' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'lose' as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.constant({ do: 'turn' as const }) },
)

async function turn(): Promise<void> {
  for (let i = 0; i < 30; i++) await Promise.resolve()
}

test('transition_sequences_preserve_activation_invariants', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const attached = new Set<Session>()
      const ended = new Map<Session, number>()
      const arrivals: Array<(ok: boolean) => void> = []
      const lookups: Array<() => void> = []
      const leavers: AbortController[] = []
      const calls: Array<{ settled: boolean; room: string; session: Session | null; error: unknown }> = []
      let generations = 0
      let made = 0
      const end = (session: Session): void => {
        ended.set(session, (ended.get(session) ?? 0) + 1)
      }
      const activations = new Activations<Session>({
        keys: (session) => aliases[session.room] ?? [],
        reusable: () => true,
        discard: (session) => {
          end(session)
          return supersededError()
        },
        displaced: end,
      })
      const request = (key: string, lookup: boolean) => ({
        key,
        aliases: lookup
          ? () =>
              new Promise<readonly string[]>((resolve) => {
                lookups.push(() => resolve(aliases[names[key] ?? ''] ?? []))
              })
          : undefined,
        attach: (flight: Flight) =>
          new Promise<Session>((resolve, reject) => {
            const abort = (): void => reject(new RoomdError('client_aborted', 'left'))
            if (flight.signal.aborted) abort()
            flight.signal.addEventListener('abort', abort)
            let generation = 0
            try {
              generation = flight.takeGeneration()
            } catch (error) {
              reject(error)
              return
            }
            expect(generation).toBeGreaterThan(generations)
            generations = generation
            arrivals.push((ok) => {
              if (!ok) {
                reject(new RoomdError('sync_failed', 'no'))
                return
              }
              if (flight.signal.aborted) return
              const session = { id: ++made, room: names[key] ?? '', generation }
              attached.add(session)
              resolve(session)
            })
          }),
      })
      const follow = (room: string, promise: Promise<Session | null>): void => {
        const call = { settled: false, room, session: null as Session | null, error: null as unknown }
        calls.push(call)
        promise.then(
          (session) => {
            call.settled = true
            call.session = session
          },
          (error) => {
            call.settled = true
            call.error = error
          },
        )
      }
      const check = (): void => {
        for (const times of ended.values()) expect(times).toBe(1)
        const { active } = activations
        if (active) expect(ended.has(active)).toBe(false)
      }
      for (const one of steps) {
        switch (one.do) {
          case 'activate': {
            const leaver = new AbortController()
            leavers.push(leaver)
            follow(
              names[one.key] ?? '',
              activations
                .activate(request(one.key, one.lookup), leaver.signal)
                .then(({ session }) => session),
            )
            break
          }
          case 'rejoin': {
            const { active, epoch } = activations
            const promise = activations.rejoin(request(one.key, false), () => true)
            follow(names[one.key] ?? '', promise)
            if (active) expect(await promise).toBeNull()
            expect(activations.epoch).toBe(epoch)
            break
          }
          case 'arrive':
            arrivals.splice(one.which % Math.max(1, arrivals.length), 1)[0]?.(one.ok)
            break
          case 'lookup':
            lookups.splice(one.which % Math.max(1, lookups.length), 1)[0]?.()
            break
          case 'disconnect': {
            const session = activations.deactivate()
            if (session) end(session)
            expect(activations.active).toBeNull()
            break
          }
          case 'lose': {
            const { active } = activations
            if (active && activations.drop(active)) end(active)
            break
          }
          case 'leave':
            leavers[one.which % Math.max(1, leavers.length)]?.abort()
            break
          case 'turn':
            await turn()
        }
        check()
      }
      // Whatever is under way comes to its end: nobody waits for ever.
      for (let round = 0; round < 50; round++) {
        for (const tell of lookups.splice(0)) tell()
        await turn()
        for (const arrive of arrivals.splice(0)) arrive(true)
        await turn()
        if (calls.every((call) => call.settled)) break
      }
      check()
      expect(calls.filter((call) => !call.settled)).toEqual([])
      // A caller has the room it asked for, or an error; what is attached is active or ended, exactly once.
      for (const { session, room, error } of calls) {
        if (session) expect(session.room).toBe(room)
        else if (error !== null) expect(error).toBeInstanceOf(RoomdError)
      }
      for (const session of attached)
        expect([session === activations.active, ended.has(session)].filter(Boolean)).toHaveLength(1)
      // The newest session that any call got is the one that is active, unless it was given up since.
      const newest = calls
        .flatMap((call) => call.session ?? [])
        .reduce<Session | null>((best, one) => (best && best.generation > one.generation ? best : one), null)
      if (newest && !ended.has(newest)) expect(activations.active).toBe(newest)
    }),
    { numRuns: 500 },
  )
})
