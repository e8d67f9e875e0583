/** Rules of the queue with a real daemon: guarded runs, history by id with no session, and a flood that is only its own room's. */
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { until, within } from '../support/until.ts'

test('guarded runs refuse what the caller has not seen, mind no edits of other cells, and run nothing when refused', () =>
  withHome(async (home) => {
    await startDaemon(home)
    const client = await connect({ env: home.env })
    try {
      const room = await client.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
      const one = await room.createCell({ source: '1' })
      const two = await room.createCell({ source: '2' })
      const note = await room.createCell({ source: 'a note', cellType: 'markdown' })
      const seen = () =>
        Object.fromEntries(
          room.state.cells
            .filter((cell) => cell.cell_type === 'code')
            .map((cell) => [cell.cell_id, cell.source_hash]),
        )
      const before = seen()
      const docSeq = room.state.doc_seq
      await room.setSource(note, 'another note')
      // One cell: by its hash, or by the document's number, which any edit moves.
      const hash = room.state.cell(one)?.source_hash ?? ''
      await within('the run', (await room.execute(one, { expectSourceHash: hash })).done)
      const stale = room.execute(one, { expect: { doc_seq: docSeq } })
      await expect(stale).rejects.toMatchObject({ code: 'conflict' })
      await expect(room.execute(one, { expectSourceHash: 'no hash' })).rejects.toMatchObject({
        code: 'conflict',
      })
      // All cells: edits of text do not matter, those of code do, as do cells that came or went.
      const all = await room.call('run_all', { expect_sources: before })
      expect(all.executions).toHaveLength(2)
      await until('the end', () => room.state.running === null && room.state.queuedTotal === 0)
      const executions = room.state.executions.size
      const refused = async (expected: Record<string, string>) =>
        expect(room.call('run_all', { expect_sources: expected })).rejects.toMatchObject({ code: 'conflict' })
      await room.setSource(two, '3')
      await refused(before)
      const now = seen()
      await refused({ ...now, gone: '0123456789abcdef' })
      const three = await room.createCell({ source: '4' })
      await refused(now)
      await room.deleteCell(three)
      expect(room.state.executions.size).toBe(executions)
      expect((await room.call('run_all', { expect_sources: now })).executions).toHaveLength(2)
    } finally {
      await client.close()
    }
  }))

test('what ran is read by its id with no room open, also by another daemon', () =>
  withHome(async (home) => {
    const first = await startDaemon(home)
    const client = await connect({ env: home.env })
    let id = ''
    try {
      const room = await client.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
      const run = await room.execute({ code: 'console.log("kept".repeat(5000))' })
      id = run.id
      await within('the end', run.done)
    } finally {
      await client.close()
    }
    await first.kill9()
    await startDaemon(home)
    const other = await connect({ env: home.env })
    try {
      const { execution } = await other.call('get_execution', { execution_id: id })
      expect(execution).toMatchObject({ status: 'done', outputs: [{ text: { size: 20_001 } }] })
      const { text } = await other.call('read_output', { execution_id: id, index: 0 })
      expect(text).toBe(`${'kept'.repeat(5000)}\n`)
      await expect(
        other.call('get_execution', { execution_id: '00000000-0000-4000-8000-000000000000' }),
      ).rejects.toMatchObject({ code: 'not_found' })
    } finally {
      await other.close()
    }
  }))

test('an endless flood in one room keeps no other room waiting, and ends with an interrupt', () =>
  withHome(async (home) => {
    await startDaemon(home)
    const client = await connect({ env: home.env })
    try {
      const create = { create: { kernel: 'javascript', working_dir: home.work } }
      const [loud, quiet] = await Promise.all([client.openRoom(create), client.openRoom(create)])
      await within('the quiet kernel', (await quiet.execute({ code: '0' })).done)
      const flood = await loud.execute({ code: 'while (true) console.log("x".repeat(100))' })
      await until('the flood', () => (loud.state.execution(flood.id)?.outputs.length ?? 0) > 0)
      // Same connection, same daemon: all of these end while the flood goes on.
      for (let i = 0; i < 20; i++) {
        const run = await quiet.execute({ code: `${i} + 1` })
        expect((await within('a small run', run.done)).status).toBe('done')
      }
      expect(loud.state.running?.execution_id).toBe(flood.id)
      expect(await within('the interrupt', loud.interrupt())).toMatchObject({ interrupted: flood.id })
      expect((await within('the end', flood.done)).status).toBe('interrupted')
    } finally {
      await client.close()
    }
  }))
