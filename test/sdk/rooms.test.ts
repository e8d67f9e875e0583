/** Rooms: opening, gates, resuming, the fate of mutations, runs. */
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Resumed } from '../../client/sdk/room-events.ts'
import { encode } from '../../protocol/codec.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Cell } from '../../protocol/notebook.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'
import { CuttingProxy } from './cutting-proxy.ts'
import { cell, execution, executionId, Fixture } from './fixture.ts'
import { notebookId, type Peer, ready, type Script } from './scripted-daemon.ts'

let fixture: Fixture
beforeEach(() => {
  fixture = new Fixture()
})
afterEach(() => fixture.dispose())

const showing = (cells: readonly Cell[], seqs: { doc_seq?: number; event_seq?: number } = {}): Script => ({
  open(peer, channel) {
    peer.opened(channel, { ...seqs, cell_count: cells.length })
    peer.page(channel, cells, seqs)
  },
})

describe('opening', () => {
  test('a path becomes absolute and needs a file; an id attaches; a new room carries a mutation id', async () => {
    const daemon = await fixture.daemon()
    const client = await fixture.connect()
    await client.openRoom({ path: 'x.ipynb' })
    await client.openRoom({ notebook_id: notebookId })
    await client.openRoom({ create: { kernel: 'python3' } })
    expect(daemon.opens.map(({ open, channel }) => ({ ...open, channel }))).toEqual([
      { target: { path: join(process.cwd(), 'x.ipynb') }, mode: 'open', channel: 1 },
      { target: { notebook_id: notebookId }, mode: 'attach', channel: 3 },
      { target: { create: { kernel: 'python3', mutation_id: 1 } }, mode: 'create', channel: 5 },
    ])
  })

  test('resolves when the last page is here, with the state of OPENED', async () => {
    let show = () => {}
    await fixture.daemon({
      open(peer, channel) {
        const running = execution(1, { status: 'running' })
        peer.opened(channel, { running, queued: [execution(2)], queued_total: 1, cell_count: 2 })
        const page = { kind: 'cells', total: 2, doc_seq: 1, event_seq: 0 }
        peer.send(FrameType.PROJECTION, channel, { ...page, start: 0, cells: [cell('a', 'x')], last: false })
        show = () =>
          peer.send(FrameType.PROJECTION, channel, { ...page, start: 1, cells: [cell('b', 'y')], last: true })
      },
    })
    const client = await fixture.connect()
    let open = false
    const opening = client.openRoom({ path: '/x' }).then((room) => {
      open = true
      return room
    })
    await client.call('ping', {}, { timeoutMs: 50 }).catch(() => {})
    expect(open).toBe(false)
    show()
    const { state } = await opening
    expect(state.cells.map(({ cell_id, source }) => [cell_id, source])).toEqual([
      ['a', 'x'],
      ['b', 'y'],
    ])
    expect(state.running?.execution_id).toBe(executionId(1))
    expect(state.queued.map((one) => one.execution_id)).toEqual([executionId(2)])
  })

  test('a refusal is what opening rejects with', async () => {
    await fixture.daemon({
      open: (peer, channel) =>
        peer.send(FrameType.CLOSE, channel, { code: 'not_found', reason: 'no such file: /x' }),
    })
    const client = await fixture.connect()
    await expect(client.openRoom({ path: '/x' })).rejects.toMatchObject({
      code: 'not_found',
      message: 'no such file: /x',
    })
  })

  test('aborting closes the channel', async () => {
    const daemon = await fixture.daemon({ open() {} })
    const client = await fixture.connect()
    const abort = new AbortController()
    const opening = client.openRoom({ path: '/x' }, { signal: abort.signal })
    await until('OPEN', () => daemon.opens.length === 1)
    abort.abort()
    await expect(opening).rejects.toMatchObject({ code: 'client_aborted' })
    await until('CLOSE', () => daemon.peers[0]?.frames.some((frame) => frame.type === FrameType.CLOSE))
  })

  test('a create that is cut off is repeated with the same mutation id', async () => {
    const first = await fixture.daemon({ open() {} })
    const client = await fixture.connect()
    const opening = client.openRoom({ create: {} })
    await until('OPEN', () => first.opens.length === 1)
    await first.kill()
    const second = await fixture.daemon()
    await opening
    expect(second.opens[0]?.open).toEqual(first.opens[0]?.open)
  })
})

describe('gates', () => {
  test('a call made before its gate opens is held and sent then; others are not held', async () => {
    const daemon = await fixture.daemon({
      open(peer, channel) {
        peer.opened(channel, { readiness: { ...ready, document: 'syncing' } })
        peer.page(channel, [])
      },
      request(peer, channel, request) {
        if (request.method === 'edit') peer.answer(channel, request.id, { doc_seq: 2, cell_ids: ['a'] })
        else peer.answer(channel, request.id, { executions: [] })
      },
    })
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const edit = room.createCell({ source: '' })
    await room.call('list_executions', {})
    expect(daemon.requests.map(({ request }) => request.method)).toEqual(['list_executions'])
    daemon.live[0]?.send(FrameType.READINESS, 1, ready)
    await expect(edit).resolves.toBe('a')
  })

  test('aborting a held call drops it', async () => {
    const daemon = await fixture.daemon({
      open(peer, channel) {
        peer.opened(channel, { readiness: { ...ready, document: 'pending' } })
        peer.page(channel, [])
      },
      request: (peer, channel, request) => peer.answer(channel, request.id, { executions: [] }),
    })
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const abort = new AbortController()
    const edit = room.createCell({ source: '' }, { signal: abort.signal })
    abort.abort()
    await expect(edit).rejects.toMatchObject({ code: 'client_aborted' })
    daemon.live[0]?.send(FrameType.READINESS, 1, ready)
    await room.call('list_executions', {})
    expect(daemon.requests.map(({ request }) => request.method)).toEqual(['list_executions'])
  })

  test('aborting a call that was sent tells the daemon', async () => {
    const daemon = await fixture.daemon()
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const abort = new AbortController()
    const call = room.call('complete', { code: 'a', cursor: 1 }, { signal: abort.signal })
    await until('the request', () => daemon.requests.length === 1)
    abort.abort()
    await expect(call).rejects.toMatchObject({ code: 'client_aborted' })
    await until('CANCEL', () => daemon.peers[0]?.frames.some(({ type }) => type === FrameType.CANCEL))
  })

  test('a conflict does not hold edits: the daemon says what to do', async () => {
    await fixture.daemon({
      open(peer, channel) {
        peer.opened(channel, { readiness: { ...ready, source: { state: 'conflict' } } })
        peer.page(channel, [])
      },
      request: (peer, channel, request) => peer.refuse(channel, request.id, 'source_conflict'),
    })
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    await expect(room.createCell({ source: '' })).rejects.toMatchObject({ code: 'source_conflict' })
  })
})

describe('resuming', () => {
  async function reopened(script: Script) {
    const first = await fixture.daemon(showing([cell('a', 'one')], { doc_seq: 4, event_seq: 7 }))
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const told: string[] = []
    room.on('event', ({ event, event_seq }) => told.push(`${event.type} ${event_seq ?? '-'}`))
    const resumed = new Promise<Resumed>((resolve) => room.on('resumed', resolve))
    first.live[0]?.event(1, 8, { type: 'execution_queued', execution: execution(1) })
    await until('the event', () => room.state.event_seq === 8)
    await first.kill()
    const second = await fixture.daemon(script)
    return { room, told, resumed: await resumed, second, open: second.opens[0]?.open }
  }

  test('asks by id from what was seen last', async () => {
    const { open, resumed, second } = await reopened({
      open: (peer, channel) =>
        peer.opened(channel, { picture: 'current', pages: false, doc_seq: 4, event_seq: 8 }),
    })
    expect(open).toEqual({
      target: { notebook_id: notebookId },
      mode: 'attach',
      resume: { event_seq: 8, doc_seq: 4 },
    })
    expect(resumed).toEqual({
      boot_id: second.bootId,
      replaced: true,
      picture: 'current',
      from: { event_seq: 8, doc_seq: 4 },
      to: { event_seq: 8, doc_seq: 4 },
    })
  })

  test('missed events are told once each, in order, before it says that it resumed', async () => {
    const { told, room, resumed } = await reopened({
      open(peer, channel) {
        peer.opened(channel, { picture: 'events', pages: false, doc_seq: 4, event_seq: 10 })
        peer.event(channel, 8, { type: 'execution_queued', execution: execution(1) })
        const started = execution(1, { status: 'running' })
        peer.event(channel, 9, { type: 'execution_started', execution: started })
        peer.event(channel, 10, {
          type: 'execution_finished',
          execution: execution(1, { status: 'done' }),
        })
        peer.event(channel, 10, {
          type: 'execution_finished',
          execution: execution(1, { status: 'done' }),
        })
      },
    })
    expect(told).toEqual(['execution_queued 8', 'execution_started 9', 'execution_finished 10'])
    expect(resumed).toMatchObject({ picture: 'events', to: { event_seq: 10 } })
    expect(room.state.running).toBe(null)
  })

  test('missed events and fresh pages: cells are new, outputs that were seen stay', async () => {
    const { room } = await reopened({
      open(peer, channel) {
        peer.opened(channel, { picture: 'events', pages: true, doc_seq: 6, event_seq: 9 })
        peer.event(channel, 9, {
          type: 'output',
          execution_id: executionId(1),
          index: 0,
          output: { output_type: 'stream', name: 'stdout', text: 'kept' },
        })
        const running = execution(1, { status: 'running', cell_id: 'a' as never })
        peer.page(channel, [cell('a', 'two', { execution: running })], { doc_seq: 6, event_seq: 9 })
      },
    })
    expect(room.state.doc_seq).toBe(6)
    expect(room.state.cells).toMatchObject([
      { source: 'two', outputs: [{ output_type: 'stream', text: 'kept' }] },
    ])
  })

  test('a resume that is too old tells one gap and shows everything afresh', async () => {
    const { told, room, resumed } = await reopened({
      open(peer, channel) {
        peer.opened(channel, { picture: 'projection', pages: true, doc_seq: 9, event_seq: 40 })
        peer.event(channel, undefined, { type: 'gap', from: 9, to: 40, reason: 'old' })
        peer.page(channel, [cell('b', 'new')], { doc_seq: 9, event_seq: 40 })
        peer.event(channel, 41, { type: 'cells_cleared', cell_ids: [] })
      },
      request(peer, channel, request) {
        const done = { ...execution(1, { status: 'done' }), outputs: [] }
        peer.answer(channel, request.id, { execution: done })
      },
    })
    expect(resumed).toMatchObject({ picture: 'projection', to: { event_seq: 40, doc_seq: 9 } })
    await until('live events', () => room.state.event_seq === 41)
    expect(told).toEqual(['execution_queued 8', 'gap -', 'cells_cleared 41'])
    expect(room.state.cells.map(({ cell_id }) => cell_id)).toEqual(['b'])
    // What was queued before and is not shown any more was asked for.
    await until('its end', () => room.state.execution(executionId(1))?.status === 'done')
  })

  test('a room that is gone says so, once, and its calls fail with the same code', async () => {
    const first = await fixture.daemon(showing([]))
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const lost: string[] = []
    room.on('lost', (error) => lost.push(error.code))
    const call = room.call('list_executions', {})
    const failed = expect(call).rejects.toMatchObject({ code: 'notebook_unavailable' })
    await until('the call', () => first.requests.length === 1)
    await first.kill()
    await fixture.daemon({
      open: (peer, channel) =>
        peer.send(FrameType.CLOSE, channel, { code: 'notebook_unavailable', reason: 'reaped' }),
    })
    await failed
    expect(lost).toEqual(['notebook_unavailable'])
    expect(room.state.attachment).toBe('lost')
    await expect(room.save()).rejects.toMatchObject({ code: 'notebook_unavailable' })
    expect(client.rooms.size).toBe(0)
  })

  test('a hole in the events opens a new channel and fills it', async () => {
    const daemon = await fixture.daemon(showing([], { event_seq: 3 }))
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const seen: (number | undefined)[] = []
    room.on('event', ({ event_seq }) => seen.push(event_seq))
    daemon.script = {
      open(peer, channel) {
        peer.opened(channel, { picture: 'events', pages: false, event_seq: 5 })
        for (const seq of [4, 5]) peer.event(channel, seq, { type: 'cells_cleared', cell_ids: [] })
      },
    }
    daemon.live[0]?.event(1, 5, { type: 'cells_cleared', cell_ids: [] })
    await until('the hole to be filled', () => room.state.event_seq === 5)
    expect(seen).toEqual([4, 5])
    expect(daemon.opens[1]).toMatchObject({ channel: 3, open: { resume: { event_seq: 3 } } })
  })

  test('a detach because the daemon goes away is not the end of the room', async () => {
    const first = await fixture.daemon(showing([]))
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const turns: string[] = []
    room.on('away', () => turns.push('away'))
    room.on('lost', () => turns.push('lost'))
    first.script = {
      open: (peer, channel) =>
        peer.send(FrameType.CLOSE, channel, { code: 'shutting_down', reason: 'the daemon stops' }),
    }
    const peer = first.live[0]
    peer?.send(FrameType.GOAWAY, 0, { reason: 'restart', drain_ms: 0 })
    peer?.send(FrameType.CLOSE, 1, { code: 'closed', reason: 'the daemon stops' })
    await until('the refusal', () => first.opens.length > 1)
    expect(room.state.attachment).toBe('away')
    await first.kill()
    await fixture.daemon({
      open: (peer, channel) => peer.opened(channel, { picture: 'current', pages: false }),
    })
    await until('the room to be back', () => room.state.attachment === 'attached')
    expect(turns).toEqual(['away'])
  })

  test('an event of a kind that is not known counts and is skipped', async () => {
    const daemon = await fixture.daemon(showing([]))
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    daemon.live[0]?.send(FrameType.EVENT, 1, { event_seq: 1, at: 1, event: { type: 'of_tomorrow', x: 1 } })
    daemon.live[0]?.event(1, 2, { type: 'cells_cleared', cell_ids: [] })
    await until('the next event', () => room.state.event_seq === 2)
    expect(daemon.opens).toHaveLength(1)
  })
})

describe('mutations', () => {
  /** Does each mutation once and remembers its result, as the daemon must. */
  function remembering() {
    const results = new Map<number, unknown>()
    let effects = 0
    const script: Script = {
      ...showing([]),
      request(peer, channel, request) {
        const id = request.mutation_id as number
        if (!results.has(id)) results.set(id, { doc_seq: 1, cell_ids: [`cell-${++effects}`] })
        peer.answer(channel, request.id, results.get(id))
      },
    }
    return { script, effects: () => effects }
  }

  test.each([0, 0.25, 0.5, 1])('cut after %d of the answer, a mutation takes effect once', async (part) => {
    const { script, effects } = remembering()
    const daemon = await fixture.daemon(script)
    const path = join(fixture.folder, 'proxy')
    const proxy = await CuttingProxy.start(path, fixture.socket)
    try {
      const client = await fixture.connect({ socket: path })
      const room = await client.openRoom({ path: '/x' })
      const answer = { id: 1, ok: true, value: { doc_seq: 1, cell_ids: ['cell-1'] } }
      const bytes = encode(answer).length + 10
      // At 0 the connection breaks with the first byte of the answer.
      const cut = new Promise<void>((resolve) => {
        daemon.script = {
          ...script,
          request(peer, channel, request) {
            proxy.allowance = Math.max(0, Math.floor(bytes * part))
            daemon.script = script
            script.request?.(peer, channel, request)
            resolve()
          },
        }
      })
      const created = room.createCell({ source: '' })
      await cut
      await expect(created).resolves.toBe('cell-1')
      await until('the cut', () => proxy.cuts === 1)
      await expect(room.createCell({ source: '' })).resolves.toBe('cell-2')
      expect(effects()).toBe(2)
      expect(new Set(daemon.requests.map(({ request }) => request.mutation_id))).toEqual(new Set([1, 2]))
      expect(daemon.requests.length).toBe(part === 1 ? 2 : 3)
    } finally {
      await proxy.stop()
    }
  })

  test('ids count on from what the daemon has seen, and the watermark stays below what is open', async () => {
    const daemon = await fixture.daemon({ ...showing([]), welcome: { mutation_id: 41 } })
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const first = room.createCell({ source: '' })
    const second = room.createCell({ source: '' })
    await until('both', () => daemon.requests.length === 2)
    const peer = daemon.live[0] as Peer
    peer.answer(1, 2, { doc_seq: 1, cell_ids: ['b'] })
    await second
    const third = room.createCell({ source: '' })
    await until('the third', () => daemon.requests.length === 3)
    expect(daemon.requests.map(({ request }) => [request.mutation_id, request.watermark])).toEqual([
      [42, 42],
      [43, 42],
      [44, 42],
    ])
    peer.answer(1, 1, { doc_seq: 1, cell_ids: ['a'] })
    peer.answer(1, 3, { doc_seq: 1, cell_ids: ['c'] })
    await Promise.all([first, third])
  })

  test('one that was sent to a daemon that stays away is outcome_unknown, with how to find out', async () => {
    const daemon = await fixture.daemon(showing([]))
    const clock = new ManualClock()
    const client = await fixture.connect({ clock })
    const room = await client.openRoom({ path: '/x' })
    const edit = room.createCell({ source: '' })
    await until('the request', () => daemon.requests.length === 1)
    const failed = expect(edit).rejects.toMatchObject({
      code: 'outcome_unknown',
      next: { tool: 'get_all_cells' },
    })
    await daemon.kill()
    await until('the loss to be noticed', () => !client.connected)
    clock.advance(10_000)
    await failed
  })
})

describe('runs', () => {
  /** A room in which `execute` queues execution 1 and says so. */
  const executing = (more: Script = {}): Script => ({
    ...showing([cell('a', 'x')]),
    request(peer, channel, request) {
      if (request.method !== 'execute') return
      const queued = execution(1, { cell_id: 'a' as never })
      peer.event(channel, 1, { type: 'execution_queued', execution: queued })
      peer.answer(channel, request.id, { execution: queued, already_active: false, event_seq: 1 })
    },
    ...more,
  })
  const text = (from: number, added: string) => ({
    type: 'output_splice' as const,
    execution_id: executionId(1),
    index: 0,
    from,
    text: added,
  })
  const finished = execution(1, { status: 'done', cell_id: 'a' as never })

  test('outputs come once each as they arrive, and the end after them', async () => {
    const daemon = await fixture.daemon(executing())
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const run = await room.execute('a')
    const peer = daemon.live[0] as Peer
    const reading = (async () => {
      let shown = ''
      for await (const output of run.outputs()) shown += 'text' in output ? output.text : output.output_type
      return shown
    })()
    const id = executionId(1)
    const stream = { output_type: 'stream' as const, name: 'stdout', text: 'one\n' }
    peer.event(1, 2, { type: 'output', execution_id: id, index: 0, output: stream })
    peer.event(1, 3, text(4, 'two\n'))
    await until('two', () => run.execution.outputs[0]?.output_type === 'stream')
    peer.event(1, 4, text(8, '10%'))
    await until('progress', () => room.state.event_seq === 4)
    peer.event(1, 5, text(8, '20%\n'))
    const error = { output_type: 'error' as const, ename: 'E', evalue: 'v', traceback: [] }
    peer.event(1, 6, { type: 'output', execution_id: id, index: 1, output: error })
    peer.event(1, 7, { type: 'execution_finished', execution: finished })
    expect(await reading).toBe('one\ntwo\n10%\r\u001b[J20%\nerror')
    const { status, execution: last } = await run.done
    expect(status).toBe('done')
    expect(last.outputs).toHaveLength(2)
    expect(room.state.cells[0]).toMatchObject({ execution: { status: 'done' }, outputs: last.outputs })
  })

  test('a run goes on across a daemon that shows everything afresh, and nothing is shown twice', async () => {
    const first = await fixture.daemon(executing())
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const run = await room.execute('a')
    const stream = { output_type: 'stream' as const, name: 'stdout', text: 'one\n' }
    const id = executionId(1)
    const outputs = run.outputs()
    first.live[0]?.event(1, 2, { type: 'output', execution_id: id, index: 0, output: stream })
    expect(await outputs.next()).toMatchObject({ value: { text: 'one\n' } })
    await first.kill()
    const running = execution(1, { status: 'running', cell_id: 'a' as never })
    await fixture.daemon({
      open(peer, channel) {
        peer.opened(channel, { event_seq: 90, running, cell_count: 1 })
        peer.event(channel, undefined, { type: 'gap', from: 3, to: 90, reason: 'old' })
        peer.page(channel, [cell('a', 'x', { execution: running })], { event_seq: 90 })
        const replay = { kind: 'replay', execution_id: id, last: false }
        const output = { type: 'output', execution_id: id, index: 0, output: stream }
        peer.send(FrameType.PROJECTION, channel, { ...replay, events: [output] })
        peer.send(FrameType.PROJECTION, channel, { ...replay, events: [text(4, 'two\n')], last: true })
        peer.event(channel, 91, { type: 'execution_finished', execution: finished })
      },
    })
    expect(await outputs.next()).toMatchObject({ value: { text: 'two\n' } })
    expect(await outputs.next()).toMatchObject({ done: true })
    await expect(run.done).resolves.toMatchObject({ status: 'done' })
  })

  test('a run that ended while nobody could be told is found out', async () => {
    const first = await fixture.daemon(executing())
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const run = await room.execute('a')
    await first.kill()
    const outputs = [{ output_type: 'stream', name: 'stdout', text: 'late\n' }]
    await fixture.daemon({
      open(peer, channel) {
        peer.opened(channel, { event_seq: 90 })
        peer.event(channel, undefined, { type: 'gap', from: 2, to: 90, reason: 'old' })
        peer.page(channel, [], { event_seq: 90 })
      },
      request(peer, channel, request) {
        if (request.method === 'get_execution')
          peer.answer(channel, request.id, { execution: { ...finished, outputs } })
      },
    })
    await expect(run.done).resolves.toMatchObject({ status: 'done', execution: { outputs } })
  })

  test('long text is kept as head and tail, and read from the daemon for showing', async () => {
    const long = 'x'.repeat(299_999)
    const whole = `${long}\nend\n`
    const daemon = await fixture.daemon(
      executing({
        request(peer, channel, request) {
          executing().request?.(peer, channel, request)
          if (request.method !== 'read_output') return
          const { offset } = request.params as { offset: number }
          const piece = whole.slice(offset, offset + 100_000)
          const next = offset + piece.length
          peer.answer(channel, request.id, {
            text: piece,
            offset,
            next_offset: next < whole.length ? next : null,
            chars: whole.length,
          })
        },
      }),
    )
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const run = await room.execute('a')
    const peer = daemon.live[0] as Peer
    const stream = { output_type: 'stream' as const, name: 'stdout', text: long }
    peer.event(1, 2, { type: 'output', execution_id: executionId(1), index: 0, output: stream })
    peer.event(1, 3, text(long.length, '\nend\n'))
    peer.event(1, 4, { type: 'execution_finished', execution: finished })
    const { execution: last } = await run.done
    expect(last.outputs[0]).toMatchObject({ text: { chars: whole.length, size: whole.length } })
    let shown = ''
    for await (const output of run.outputs()) shown += 'text' in output ? output.text : ''
    expect(shown).toBe(whole)
  })

  test('one who stops reading leaves the run alone', async () => {
    await fixture.daemon(executing())
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const run = await room.execute('a')
    const abort = new AbortController()
    const read = expect(run.outputs({ signal: abort.signal }).next()).rejects.toMatchObject({
      code: 'client_aborted',
    })
    abort.abort()
    await read
    expect(run.execution.status).toBe('queued')
  })

  test('closing the room ends what waits for the run', async () => {
    await fixture.daemon(executing())
    const client = await fixture.connect()
    const room = await client.openRoom({ path: '/x' })
    const run = await room.execute('a')
    const read = expect(run.outputs().next()).rejects.toMatchObject({ code: 'client_closed' })
    await room.close()
    await read
    await expect(run.done).rejects.toMatchObject({ code: 'client_closed' })
  })
})

test('two clients see the same events in the same order', async () => {
  const daemon = await fixture.daemon(showing([]))
  const seen = await Promise.all(
    [1, 2].map(async () => {
      const room = await (await fixture.connect()).openRoom({ path: '/x' })
      const events: number[] = []
      room.on('event', ({ event_seq }) => events.push(event_seq ?? 0))
      return { room, events }
    }),
  )
  for (let seq = 1; seq <= 50; seq++)
    for (const peer of daemon.live) peer.event(1, seq, { type: 'cells_cleared', cell_ids: [] })
  await until('all events', () => seen.every(({ room }) => room.state.event_seq === 50))
  expect(seen[0]?.events).toEqual(seen[1]?.events)
})

test('a blob is fetched once for all who ask, and checked', async () => {
  const content = new TextEncoder().encode('a blob')
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  const hash = Buffer.from(digest).toString('hex')
  const daemon = await fixture.daemon({
    request(peer, channel, request) {
      peer.answer(channel, request.id, { size: content.length })
      const value = new Uint8Array([...digest, ...content])
      peer.send(FrameType.BLOB, channel, value)
    },
  })
  const client = await fixture.connect()
  const [one, two] = await Promise.all([client.fetchBlob(hash), client.fetchBlob(hash)])
  expect(new TextDecoder().decode(one)).toBe('a blob')
  expect(two).toBe(one)
  expect(daemon.requests).toHaveLength(1)
})
