/** The SDK and the real daemon, killed in the middle of things. Kernel: the embedded one. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { until, within } from '../support/until.ts'

test('cells, runs and outputs survive a daemon that is killed while a cell runs', () =>
  withHome(async (home) => {
    const first = await startDaemon(home)
    const client = await connect({ env: home.env, waitMs: 60_000 })
    try {
      const room = await client.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
      const cellId = await room.createCell({
        source:
          'for (let i = 0; i < 40; i++) { console.log("line " + i); await new Promise((r) => setTimeout(r, 50)) }',
      })
      const run = await room.execute(cellId)
      const outputs = run.outputs()
      let shown = ''
      const read = (async () => {
        for await (const output of outputs) shown += output.output_type === 'stream' ? output.text : ''
      })()
      await until('some lines', () => shown.includes('line 3\n'))
      await first.kill9()
      // Made while nobody is there; the next daemon takes it.
      const late = room.createCell({ source: 'x = 1' })
      const second = await startDaemon(home)
      await within('the new cell', late)
      const { status } = await within('the end of the run', run.done)
      await read
      expect(status).toBe('done')
      expect(shown).toBe(Array.from({ length: 40 }, (_, i) => `line ${i}\n`).join(''))
      expect(room.state.cells.map((cell) => cell.cell_id)).toEqual([cellId, await late])
      expect(client.daemon?.pid).toBe(second.pid)
      await client.close()
      await second.stop()
    } finally {
      await client.close()
    }
  }))

test('two documents and the file agree, through Yjs and by operation', () =>
  withHome(async (home) => {
    const path = join(home.work, 'n.ipynb')
    const empty = { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 }
    writeFileSync(path, JSON.stringify(empty))
    const daemon = await startDaemon(home)
    const one = await connect({ env: home.env, label: 'one' })
    const two = await connect({ env: home.env, label: 'two' })
    try {
      const a = await one.openRoom({ path })
      const b = await two.openRoom({ path })
      const [left, right] = await Promise.all([a.doc(), b.doc()])
      const cellId = await a.createCell({ source: 'print(1)' })
      await until('the cell', () => right.getArray('cells').length === 1)
      const cell = left.getArray('cells').get(0) as {
        get(key: string): { insert(at: number, text: string): void }
      }
      cell.get('source').insert(0, '# typed\n')
      await a.flush()
      const { cells } = await b.call('get_cells', {})
      expect(cells).toMatchObject([{ cell_id: cellId, source: '# typed\nprint(1)' }])
      await until('the other mirror', () => b.state.cells[0]?.source === '# typed\nprint(1)')
      expect(b.state.cells[0]?.source_hash).toBe(cells[0]?.source_hash)
      await b.save()
      expect(JSON.parse(readFileSync(path, 'utf8')).cells).toMatchObject([{ id: cellId }])
      await until('both peers', () => a.state.peers.length === 2)
      expect(a.state.peers.map((peer) => peer.label).sort()).toEqual(['one', 'two'])
      b.presence.setLocalStateField('cursor', 7)
      await until('presence', () => a.presence.states.get(right.clientID)?.cursor === 7)
    } finally {
      await Promise.all([one.close(), two.close()])
      await daemon.stop()
    }
  }))

test('a kernel’s error, an interrupt and a refused edit are told as they are', () =>
  withHome(async (home) => {
    const daemon = await startDaemon(home)
    const client = await connect({ env: home.env })
    try {
      const room = await client.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
      const failing = await room.execute({ code: 'throw new Error("no")' })
      const failed = await within('the failure', failing.done)
      expect(failed.status).toBe('error')
      expect(failed.execution.outputs.at(-1)).toMatchObject({ output_type: 'error', evalue: 'no' })
      const endless = await room.execute({ code: 'for (;;) {}' })
      await until('it to run', () => endless.execution.status === 'running')
      await endless.interrupt()
      expect((await within('the interrupt', endless.done)).status).toBe('interrupted')
      await expect(room.setSource('nowhere', 'x')).rejects.toMatchObject({ code: 'not_found' })
      await expect(client.openRoom({ path: join(home.work, 'missing.ipynb') })).rejects.toMatchObject({
        code: 'not_found',
      })
    } finally {
      await client.close()
      await daemon.stop()
    }
  }))
