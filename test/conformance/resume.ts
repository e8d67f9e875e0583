/**
 * The resume conformance suite: what a client that lost its connection, or its daemon, is told when it comes back. Registers its
 * tests for one way to the daemon; each transport runs it, with the real daemon and the real client.
 */
import { describe, expect, it } from 'vitest'
import type { Client } from '../../client/sdk/client.ts'
import type { Resumed } from '../../client/sdk/room-events.ts'
import { until, within } from '../support/until.ts'

export interface ResumeGround {
  readonly name: string
  /** A client that goes this way, as the owner. */
  connect(): Promise<Client>
  /** The id of a new room with cells `c0` and `c1`. */
  room(): Promise<string>
  /** SIGKILL and another start. */
  killAndStart(): Promise<void>
}

export function resumeConformance(ground: () => ResumeGround, name: string): void {
  describe(`resuming over ${name}`, () => {
    it('gives every event that was missed, once, in order, across the death of the daemon', async () => {
      const { connect, room: makeRoom, killAndStart } = ground()
      const id = await makeRoom()
      const [watching, acting] = [await connect(), await connect()]
      const [seen, room] = await Promise.all(
        [watching, acting].map((client) => client.openRoom({ notebook_id: id })),
      )
      if (!seen || !room) throw new Error('no rooms')
      const numbers: number[] = []
      seen.on('event', ({ event_seq }) => {
        if (event_seq !== undefined) numbers.push(event_seq)
      })
      const resumed = new Promise<Resumed>((resolve) => seen.on('resumed', resolve))
      for (let n = 0; n < 5; n++) await (await room.execute({ code: `console.log(${n})` })).done
      const run = await room.execute({
        code: 'for (let i = 0; i < 40; i++) { console.log("line", i); await new Promise((r) => setTimeout(r, 20)) }',
      })
      await until('some lines', () => JSON.stringify(run.execution.outputs).includes('line 3'))
      await killAndStart()
      const { status, execution } = await within('the end of the run', run.done, 40_000)
      expect(status).toBe('done')
      const lines = execution.outputs
        .map((output) => (output.output_type === 'stream' ? output.text : ''))
        .join('')
      expect(lines).toBe(Array.from({ length: 40 }, (_, i) => `line ${i}\n`).join(''))
      await within('the other to have resumed', resumed, 40_000)
      await until('the other to have seen the end', () => seen.state.event_seq === room.state.event_seq)
      expect(numbers).toEqual(numbers.map((_, i) => (numbers[0] ?? 0) + i))
      await Promise.all([watching.close(), acting.close()])
    })

    it('sends a mutation again without doing it twice', async () => {
      const { connect, room: makeRoom, killAndStart } = ground()
      const client = await connect()
      const room = await client.openRoom({ notebook_id: await makeRoom() })
      const made = Array.from({ length: 30 }, (_, n) => room.createCell({ source: `made ${n}` }))
      await made[3]
      await killAndStart()
      await within('all to be made', Promise.all(made), 40_000)
      const { cells } = await room.call('get_cells', {})
      const sources = cells.map(({ source }) => source).filter((source) => source.startsWith('made'))
      expect(sources.sort()).toEqual(made.map((_, n) => `made ${n}`).sort())
      await client.close()
    })
  })
}
