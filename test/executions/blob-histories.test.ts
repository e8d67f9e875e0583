/**
 * Collecting blobs, by random histories of runs, replaced displays, widgets, forgotten executions and daemons killed at any moment: a blob
 * that something names is never removed, and one that nothing names does not stay.
 */
import { mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Blobs, openBlobs } from '../../daemon/executions/blobs.ts'
import { collectBlobs, KEPT_MS, pruneExecutions } from '../../daemon/executions/retention.ts'
import { blobRefOf } from '../../daemon/executions/values.ts'
import { decode } from '../../protocol/codec.ts'
import type { BlobHash, ExecutionId } from '../../protocol/ids.ts'
import { until } from '../support/until.ts'
import { type ScriptedKernel, TestRoom } from './support.ts'

const HOUR = 3_600_000

/** Twelve values, each a blob; the same content is shared by all who show it. */
const value = (n: number): string => `${n}`.repeat(9_000)

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('show' as const),
      n: fc.nat(11),
      id: fc.constantFrom('', 'a', 'b'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('update' as const),
      n: fc.nat(11),
      id: fc.constantFrom('a', 'b'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('capture' as const), n: fc.nat(11) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('run' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('prune' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('kill' as const), committed: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('collect' as const), young: fc.boolean() }) },
)

function named(room: TestRoom): Set<string> {
  const names = new Set<string>()
  const look = (item: unknown): void => {
    if (typeof item !== 'object' || item === null || item instanceof Uint8Array) return
    const ref = blobRefOf(item)
    if (ref) names.add(ref.blob)
    for (const inner of Object.values(item)) look(inner)
  }
  for (const [table, column] of [
    ['outputs', 'body'],
    ['comm_state', 'value'],
    ['comm_sends', 'body'],
  ])
    for (const row of room.store.all<{ body: Uint8Array }>(`SELECT ${column} AS body FROM ${table}`))
      look(decode(row.body))
  return names
}

async function mustBeThere(room: TestRoom, blobs: Blobs): Promise<void> {
  for (const name of named(room))
    expect((await blobs.read(name as BlobHash)).length).toBeGreaterThanOrEqual(9_000)
}

/** Everything that the kernel said is taken and committed. */
async function rest(room: TestRoom): Promise<void> {
  const kernel = room.present as ScriptedKernel
  room.holding = false
  room.release()
  await until('everything to be taken', async () => {
    await room.rest(200)
    return kernel.acknowledged === kernel.seq
  })
}

/** A folder of blobs, and all puts of all processes: a killed one's writes end before the next looks, as the disk has it. */
class Folder {
  readonly path = mkdtempSync(join(tmpdir(), 'roomd-blobs-'))
  readonly #puts = new Set<Promise<unknown>>()

  open(): Blobs {
    const blobs = openBlobs(this.path)
    return {
      read: (hash) => blobs.read(hash),
      file: (hash) => blobs.file(hash),
      collect: (keep, before) => blobs.collect(keep, before),
      put: (bytes) => {
        const put = blobs.put(bytes)
        this.#puts.add(put)
        return put
      },
    }
  }

  async settled(): Promise<void> {
    await Promise.allSettled(this.#puts)
    this.#puts.clear()
  }
}

test('what is named is there, what is not named goes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const folder = new Folder()
      let blobs = folder.open()
      const first = new TestRoom({ blobs })
      let room = first
      const kernel = room.present as ScriptedKernel
      let id = '' as ExecutionId
      const begin = async (): Promise<void> => {
        id = await room.run({ code: 'x' })
        await rest(room)
        kernel.begin(id)
      }
      try {
        await begin()
        kernel.say(null, 'comm_open', {
          comm_id: 'out',
          target_name: 'jupyter.widget',
          data: {
            state: {
              _model_module: '@jupyter-widgets/output',
              _model_name: 'OutputModel',
              msg_id: 'hook',
              outputs: [],
            },
          },
        })
        for (const it of steps) {
          switch (it.do) {
            case 'show':
              kernel.display(id, { 'text/plain': value(it.n) }, it.id || undefined)
              break
            case 'update':
              kernel.display(id, { 'text/plain': value(it.n) }, it.id, 'update_display_data')
              break
            case 'capture':
              kernel.display('hook' as ExecutionId, { 'text/plain': value(it.n) })
              break
            case 'clear':
              kernel.say(id, 'clear_output', { wait: false })
              kernel.say('hook', 'clear_output', { wait: true })
              break
            case 'run':
              kernel.end(id)
              await rest(room)
              await begin()
              break
            case 'prune':
              await rest(room)
              await room.store.write(pruneExecutions(room.id, [], room.now() + 2 * KEPT_MS))
              break
            case 'kill':
              room.holding = true
              await room.rest(20)
              room.release(it.committed)
              await setImmediate()
              // Another process: it knows of no put before it.
              await folder.settled()
              blobs = folder.open()
              room = room.crash(kernel, undefined, blobs)
              break
            case 'collect':
              // What is on its way is young; otherwise everything is old.
              if (!it.young) await rest(room)
              await collectBlobs(room.store, blobs, Date.now() + (it.young ? 0 : 2 * HOUR))
              await mustBeThere(room, blobs)
              break
          }
        }
        await rest(room)
        await mustBeThere(room, blobs)
        await collectBlobs(room.store, blobs, Date.now() + 2 * HOUR)
        expect(new Set(readdirSync(folder.path))).toEqual(named(room))
        await mustBeThere(room, blobs)
      } finally {
        await room.close()
        await first.close()
        rmSync(folder.path, { recursive: true, force: true })
      }
    }),
    { numRuns: Number(process.env.ROOMD_TEST_ROUNDS ?? 25) },
  )
})

test('a put of what is being removed at that moment is durable all the same', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-blobs-'))
  try {
    for (let round = 0; round < 200; round++) {
      const bytes = Buffer.from(`${round}`)
      const { blob } = await openBlobs(folder).put(bytes)
      // Another process than the one that wrote it, long ago.
      const blobs = openBlobs(folder)
      const long = new Date(Date.now() - 10 * HOUR)
      utimesSync(blobs.file(blob), long, long)
      const removal = blobs.collect(new Set(), Date.now() - HOUR)
      for (let turn = 0; turn < round % 6; turn++) await setImmediate()
      await Promise.all([removal, blobs.put(bytes)])
      expect(Buffer.from(await blobs.read(blob))).toEqual(bytes)
      rmSync(blobs.file(blob))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
