/** UTF-8 is never cut: whatever the text, however it comes in pieces, and whatever limit or slice falls into it. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wholeUnits } from '../../daemon/executions/change.ts'
import { readOutputText } from '../../daemon/executions/reading.ts'
import { shorten, unitsWithin } from '../../daemon/executions/shorten.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import { TestRoom } from './support.ts'

/** Characters of one to four bytes, combining ones and pairs among them; no control characters. */
const character = fc.constantFrom('a', 'é', 'ü', '中', '\u0301', '👍', '🏳️‍🌈', '𝔘', '\n')
const text = fc.array(character, { minLength: 1, maxLength: 80 }).map((all) => all.join(''))

const whole = (value: unknown): void => {
  expect(
    /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(JSON.stringify(value)),
  ).toBe(false)
  expect(JSON.stringify(value)).not.toContain('\ufffd')
  expect(JSON.stringify(value)).not.toMatch(/\\ud[89a-f]/i)
}

test('cuts by bytes and by units part no character', () => {
  fc.assert(
    fc.property(text, fc.nat(2_000), (all, most) => {
      whole(all.slice(0, unitsWithin(all, most)))
      expect(Buffer.byteLength(all.slice(0, unitsWithin(all, most)))).toBeLessThanOrEqual(most)
      if (most > 0) whole(all.slice(0, wholeUnits(all, most)))
      whole(shorten(all, most + 10))
    }),
  )
})

test('events, rows, snapshots and slices hold whole characters, and every byte is there or counted', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ text, name: fc.constantFrom('stdout', 'stderr') }), {
        minLength: 1,
        maxLength: 8,
      }),
      fc.integer({ min: 1, max: 300 }),
      fc.constantFrom(1_000, 4_000, 64 * 1024 * 1024),
      async (pieces, sliceUnits, outputBytes) => {
        const room = new TestRoom({ limits: { sliceUnits, outputBytes } })
        const kernel = room.present
        if (!kernel) throw new Error('no kernel')
        const id = await room.run({ code: 'x' })
        await room.rest()
        kernel.begin(id)
        for (const piece of pieces) kernel.print(id, piece.text, piece.name)
        kernel.end(id)
        for (let i = 0; i < 500 && !room.executions.idle; i++) await room.rest(20)
        expect(room.executions.idle).toBe(true)
        for (const event of room.told as DurableEvent[]) whole(event)
        const outputs = room.executions.outputs(id)
        whole(outputs)
        let kept = 0
        let missing = 0
        for (const [index, output] of outputs.entries()) {
          if (output.output_type !== 'stream') continue
          let all = ''
          for (let offset: number | null = 0; offset !== null; ) {
            const wanted = { execution_id: id, index, offset, length: 1 + (sliceUnits % 37) }
            const slice = await readOutputText(room.store, room.blobs, wanted)
            whole(slice.text)
            all += slice.text
            offset = slice.next_offset
          }
          const marker = /^\[roomd: (\d+) bytes of output are missing here/.exec(all)
          if (marker) missing += Number(marker[1])
          else kept += Buffer.byteLength(all)
        }
        const printed = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece.text), 0)
        expect(kept + missing).toBe(printed)
        if (outputBytes > printed * 4) expect(missing).toBe(0)
        await room.close()
      },
    ),
    { numRuns: 25 },
  )
})
