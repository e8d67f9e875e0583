import { createHash } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { MAX_OPEN_REQUESTS } from '../../daemon/server/request-budget.ts'
import { encode } from '../../protocol/codec.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType, MAX_QUEUED_CONNECTION } from '../../protocol/frames.ts'
import { methods } from '../../protocol/methods.ts'
import { type Scope, scopeAllows, scopes } from '../../protocol/scopes.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until } from '../support/until.ts'
import { bootId, startServer, type TestServer } from './harness.ts'
import { deferred } from './scripted-rooms.ts'

let running: TestServer | undefined
afterEach(async () => {
  await running?.dispose()
  running = undefined
})
const start = async (...args: Parameters<typeof startServer>) => {
  running = await startServer(...args)
  return running
}
const uuid = '55555555-5555-4555-8555-555555555555'
/** Parameters that pass each method's schema. */
const valid: Record<string, unknown> = {
  find_room: { room: 'x' },
  get_execution: { execution_id: uuid },
  read_output: { execution_id: uuid, index: 0 },
  fetch_blob: { blob: 'a'.repeat(64) },
  close_room: { notebook_id: uuid },
  add_project: { source: '/tmp/repository' },
  get_project: { project: 'p' },
  trust_project: { project: 'p' },
  remove_project: { project: 'p' },
  archive_room: { notebook_id: uuid },
  claim_room: { project: 'p', interactive: false },
  shutdown: { boot_id: bootId },
  create_token: { scope: 'viewer' },
  revoke_token: { token_id: 'a' },
  session_accumulate: { session_id: 's' },
  session_finalize: { session_id: 's' },
  session_save: { session_id: 's', data_type: 'state', content: '{}' },
  session_unarchive: { session_id: 's' },
  session_link: { child_id: 's', parent_id: 't' },
  session_tag: { session_id: 's', tags: 'a' },
  session_untag: { session_id: 's', tags: 'a' },
  session_get_context: { session_id: 's' },
  session_search_tags: { tags: 'a' },
  session_add_work_item: { session_id: 's', description: 'd' },
  session_complete_work_item: { session_id: 's', work_id: 'w' },
  session_get_work_items: { session_id: 's' },
  session_show: { session_id: 's' },
  session_record: { cwd: '/' },
  session_hook: { event: 'Stop', event_id: 'e', at: 1, input: {} },
  session_export: { dir: '/x' },
  get_cell: { cell_id: 'c' },
  edit: { operations: [{ op: 'delete_cell', cell_id: 'c' }] },
  execute: { cell_id: 'c' },
  cancel_execution: { execution_id: uuid },
  send_input: { execution_id: uuid, value: '' },
  complete: { code: '', cursor: 0 },
  inspect: { code: '', cursor: 0 },
  get_comm: { comm_id: 'c' },
  read_comm_message: { message_id: uuid },
  open_comm: { target_name: 't' },
  send_comm: { comm_id: 'c' },
  close_comm: { comm_id: 'c' },
  reconcile_source: { keep: 'room' },
  set_autosave: { autosave: 'on' },
  list_edits: { after: 0 },
  set_keep_alive: { keep_alive: 'default' },
}

describe('what may be asked', () => {
  test.each(scopes)('a %s may call what the table allows, and nothing else', async (scope: Scope) => {
    const server = await start({ scope })
    const client = await server.connect()
    await client.opened(1)
    for (const [method, rule] of Object.entries(methods)) {
      if (!rule) continue
      const channel = rule.channel === 'room' ? 1 : 0
      expect(rule.params.safeParse(valid[method] ?? {}).success, `${method}: give it parameters above`).toBe(
        true,
      )
      const answer = await client.request(channel, method, valid[method] ?? {})
      if (scopeAllows(scope, rule.scope)) expect(answer, method).toMatchObject({ ok: true })
      else expect(answer, method).toMatchObject({ ok: false, error: { code: 'forbidden' } })
    }
  })

  test('a channel opened with less scope than the connection has keeps to it', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1, { scope: 'viewer' })
    expect(await client.request(1, 'execute', valid.execute)).toMatchObject({ error: { code: 'forbidden' } })
  })

  test('unknown methods, also those that every object has, are unsupported', async () => {
    const server = await start()
    const client = await server.connect()
    for (const method of ['fly', 'constructor', '__proto__', 'toString']) {
      expect(await client.request(0, method)).toMatchObject({ ok: false, error: { code: 'unsupported' } })
    }
  })

  test('methods of rooms on channel 0, and the other way round, are refused', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    expect(await client.request(0, 'get_cells')).toMatchObject({ error: { code: 'invalid_argument' } })
    expect(await client.request(1, 'status')).toMatchObject({ error: { code: 'invalid_argument' } })
  })

  test('parameters that break their schema are refused by name', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    expect(await client.request(1, 'get_cells', { count: 0 })).toMatchObject({
      error: {
        code: 'invalid_argument',
        message: expect.stringContaining('get_cells: count'),
        cause: { at: 'count' },
      },
    })
    expect(await client.request(0, 'ping', { extra: 1 })).toMatchObject({
      error: { code: 'invalid_argument' },
    })
  })

  test('a faulty envelope with an id is answered; one without ends the connection', async () => {
    const server = await start()
    const client = await server.connect()
    client.send(FrameType.REQUEST, 0, { id: 77, method: 'ping', params: {}, deadline_ms: -1 })
    expect(await client.answer(0, 77)).toMatchObject({ ok: false, error: { code: 'invalid_argument' } })
    client.send(FrameType.REQUEST, 0, { method: 'ping' })
    expect(await client.ended()).toMatchObject({ cause: 'error', code: 'invalid_argument' })
  })

  test('an id that is still open may not be used again on its channel, but on another', async () => {
    const server = await start()
    const gate = deferred<unknown>()
    server.rooms.roomRequest = () => gate.promise
    const client = await server.connect()
    await client.opened(1)
    await client.opened(3)
    client.ask(1, 'get_cells', {}, { id: 500 })
    client.ask(3, 'get_cells', {}, { id: 500 })
    client.ask(0, 'ping', {}, { id: 500 })
    await client.answer(0, 500)
    client.ask(1, 'get_cells', {}, { id: 500 })
    expect(await client.ended()).toMatchObject({ cause: 'error', message: expect.stringContaining('500') })
    gate.resolve({})
  })
})

describe('answers', () => {
  test('parameters arrive parsed, and context tells who asks', async () => {
    const server = await start()
    let seen: unknown
    server.rooms.roomRequest = async (_peer, method, args, { identity, mutationId, watermark, expect }) => {
      seen = { method, args, label: identity.label, kind: identity.kind, mutationId, watermark, expect }
      return {}
    }
    const client = await server.connect({ label: 'Some\u202e one', kind: 'mcp' })
    await client.opened(1)
    await client.request(
      1,
      'execute',
      { cell_id: 'c' },
      { mutation_id: 9 as never, watermark: 3, expect: { doc_seq: 4 } },
    )
    expect(seen).toEqual({
      method: 'execute',
      args: { cell_id: 'c', on_error: 'stop', allow_stdin: true },
      label: 'Some one',
      kind: 'mcp',
      mutationId: 9,
      watermark: 3,
      expect: { doc_seq: 4 },
    })
  })

  test('come behind the events that the request caused', async () => {
    const server = await start()
    server.rooms.roomRequest = async (peer) => {
      for (let n = 1; n <= 50; n++) {
        peer.channel.offer(
          FrameType.EVENT,
          encode({ event_seq: n, at: 0, event: { type: 'x', pad: 'y'.repeat(3000) } }),
        )
      }
      return { done: true }
    }
    const client = await server.connect()
    await client.opened(1)
    await client.request(1, 'execute', { code: '1' })
    const order = client.received.filter((one) => one.channel === 1).map((one) => one.type)
    expect(order).toEqual([FrameType.OPENED, ...Array(50).fill(FrameType.EVENT), FrameType.RESPONSE])
  })

  test('may come in any order', async () => {
    const server = await start()
    const gates = [deferred<unknown>(), deferred<unknown>()]
    let asked = 0
    server.rooms.roomRequest = () => gates[asked++]?.promise ?? Promise.resolve()
    const client = await server.connect()
    await client.opened(1)
    const [first, second] = [client.ask(1, 'get_cells'), client.ask(1, 'get_cells')]
    await client.settled()
    gates[1]?.resolve('second')
    expect((await client.answer(1, second)).value).toBe('second')
    gates[0]?.resolve('first')
    expect((await client.answer(1, first)).value).toBe('first')
  })

  test('errors travel whole; defects are internal and spare the connection', async () => {
    const server = await start()
    const errors: unknown[] = [
      new RoomdError('conflict', 'another source', {
        cause: { source_hash: 'h' },
        next: { tool: 'get_cell', arguments: {} },
      }),
      new TypeError('x is not a function'),
    ]
    server.rooms.roomRequest = () => Promise.reject(errors.shift())
    const client = await server.connect()
    await client.opened(1)
    expect((await client.request(1, 'get_cells')).error).toEqual({
      code: 'conflict',
      message: 'another source',
      retryable: false,
      cause: { source_hash: 'h' },
      next: { tool: 'get_cell', arguments: {} },
    })
    expect((await client.request(1, 'get_cells')).error).toMatchObject({ code: 'internal' })
    expect((await client.request(0, 'ping')).ok).toBe(true)
  })

  test('that are over the cap become too_large', async () => {
    const server = await start()
    server.rooms.roomRequest = async () => ({ text: 'x'.repeat(65 * 1024 * 1024) })
    const client = await server.connect()
    await client.opened(1)
    expect(await client.request(1, 'get_cells')).toMatchObject({ ok: false, error: { code: 'too_large' } })
  })

  test('that cannot be written become internal, also when it is the error that cannot', async () => {
    const server = await start()
    const client = await server.connect()
    await client.opened(1)
    server.rooms.roomRequest = async () => ({ big: 2n ** 80n })
    expect(await client.request(1, 'get_cells')).toMatchObject({ ok: false, error: { code: 'internal' } })
    server.rooms.roomRequest = () => Promise.reject(new RoomdError('conflict', 'odd', { cause: 2n ** 80n }))
    expect(await client.request(1, 'get_cells')).toMatchObject({
      ok: false,
      error: { code: 'conflict', message: 'odd' },
    })
  })
})

describe('CANCEL and deadlines', () => {
  test('CANCEL aborts the signal, and what the room then answers is the answer', async () => {
    const server = await start()
    server.rooms.roomRequest = (_peer, _method, _args, { signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve({ interrupted: true })))
    const client = await server.connect()
    await client.opened(1)
    const id = client.ask(1, 'interrupt')
    await client.settled()
    client.send(FrameType.CANCEL, 1, { id })
    expect(await client.answer(1, id)).toMatchObject({ ok: true, value: { interrupted: true } })
  })

  test('CANCEL of a request that does not heed it ends the wait; the late result is dropped', async () => {
    const server = await start()
    const gate = deferred<unknown>()
    server.rooms.roomRequest = () => gate.promise
    const client = await server.connect()
    await client.opened(1)
    const id = client.ask(1, 'save')
    await client.settled()
    client.send(FrameType.CANCEL, 1, { id })
    expect(await client.answer(1, id)).toMatchObject({ error: { code: 'outcome_unknown' } })
    gate.resolve({})
    client.send(FrameType.CANCEL, 1, { id })
    await client.settled()
    expect(
      client.received.filter((one) => one.type === FrameType.RESPONSE && one.channel === 1),
    ).toHaveLength(1)
  })

  test('a signal asked for after the abort is aborted', async () => {
    const server = await start()
    const gate = deferred<void>()
    const seen = deferred<boolean>()
    server.rooms.roomRequest = async (_peer, _method, _args, context) => {
      await gate.promise
      seen.resolve(context.signal.aborted)
      return {}
    }
    const client = await server.connect()
    await client.opened(1)
    const id = client.ask(1, 'get_cells')
    client.send(FrameType.CANCEL, 1, { id })
    await client.answer(1, id)
    gate.resolve()
    expect(await seen.promise).toBe(true)
  })

  test('a deadline ends the wait: reads may be asked again, mutations by their id', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const server = await start({ clock })
    server.rooms.roomRequest = () => new Promise(() => {})
    const client = await server.connect()
    await client.opened(1)
    const read = client.ask(1, 'get_cells', {}, { deadline_ms: 500 })
    const mutation = client.ask(1, 'save', {}, { deadline_ms: 1000, mutation_id: 4 as never })
    await client.settled()
    clock.advance(499)
    await client.settled()
    expect(
      client.received.filter((one) => one.type === FrameType.RESPONSE && one.channel === 1),
    ).toHaveLength(0)
    clock.advance(1)
    expect(await client.answer(1, read)).toMatchObject({ error: { code: 'overloaded', retryable: true } })
    clock.advance(500)
    expect(await client.answer(1, mutation)).toMatchObject({
      error: {
        code: 'outcome_unknown',
        retryable: true,
        message: expect.stringContaining('same mutation id'),
      },
    })
  })

  test('an answer in time stops its deadline', async () => {
    const clock = new ManualClock(1_700_000_000_000)
    const server = await start({ clock })
    const client = await server.connect()
    await client.opened(1)
    const before = clock.pending.length
    expect((await client.request(1, 'get_cells', {}, { deadline_ms: 1_000_000 })).ok).toBe(true)
    expect(clock.pending).toHaveLength(before)
  })

  test('a request held before the rooms are ready can be cancelled and then never runs', async () => {
    const server = await start({ ready: false })
    let ran = 0
    server.rooms.connectionRequest = async () => {
      ran++
      return { rooms: [] }
    }
    const client = await server.connect()
    const cancelled = client.ask(0, 'list_rooms')
    const kept = client.ask(0, 'list_rooms')
    client.send(FrameType.CANCEL, 0, { id: cancelled })
    expect(await client.answer(0, cancelled)).toMatchObject({ ok: false })
    server.server.ready(server.rooms)
    expect((await client.answer(0, kept)).ok).toBe(true)
    expect(ran).toBe(1)
  })
})

describe('overload', () => {
  test('more open requests than a connection may have are refused; when some end, others are taken', async () => {
    const server = await start()
    const gate = deferred<unknown>()
    server.rooms.roomRequest = () => gate.promise
    const client = await server.connect()
    await client.opened(1)
    for (let n = 0; n < MAX_OPEN_REQUESTS; n++) client.ask(1, 'get_cells')
    expect(await client.request(1, 'get_cells')).toMatchObject({
      error: { code: 'overloaded', retryable: true },
    })
    const other = await server.connect()
    expect((await other.request(0, 'ping')).ok).toBe(true)
    gate.resolve({})
    await until('the answers', () => client.received.length > MAX_OPEN_REQUESTS)
    expect((await client.request(1, 'get_cells')).ok).toBe(true)
  })

  test('a client that does not read is refused new requests, but can still interrupt', async () => {
    const server = await start()
    const asked: string[] = []
    const sizes = [2 * 1024 * 1024, MAX_QUEUED_CONNECTION + 1024]
    server.rooms.roomRequest = async (_peer, method) => {
      asked.push(method)
      return method === 'get_cells' ? { big: new Uint8Array(sizes.shift() ?? 0) } : {}
    }
    const client = await server.connect()
    await client.opened(1)
    await client.opened(3)
    const read = client.stopReading()
    // The first answer takes all credit of channel 1; the second waits in the daemon.
    expect((await client.request(1, 'get_cells')).ok).toBe(true)
    const waiting = client.ask(1, 'get_cells')
    await client.settled()
    const refused = await client.request(3, 'get_cells')
    expect(refused.error).toMatchObject({ code: 'overloaded', retryable: true })
    expect((await client.request(3, 'interrupt')).ok).toBe(true)
    read()
    expect((await client.answer(1, waiting)).ok).toBe(true)
    expect((await client.request(1, 'get_cells')).ok).toBe(true)
    expect(asked).toEqual(['get_cells', 'get_cells', 'interrupt', 'get_cells'])
  })
})

describe('methods of the server itself', () => {
  test('status tells the daemon’s counts', async () => {
    const server = await start()
    const client = await server.connect()
    await server.connect()
    await client.opened(1)
    const { value } = await client.request(0, 'status')
    expect(methods.status?.result.parse(value)).toMatchObject({
      running: true,
      pid: process.pid,
      boot_id: bootId,
      socket: server.path,
      peers: 1,
      connections: 2,
      journal: { state: 'ok' },
    })
  })

  test('fetch_blob answers with the size; digest and content follow as one BLOB', async () => {
    const content = new Uint8Array(3 * 1024 * 1024).map((_, n) => n % 251)
    const blob = createHash('sha256').update(content).digest('hex')
    const server = await start({
      process: {
        readBlob: async (hash) => {
          if (hash !== blob) throw new RoomdError('not_found', 'no such blob')
          return content
        },
      },
    })
    const client = await server.connect()
    expect((await client.request(0, 'fetch_blob', { blob })).value).toEqual({ size: content.length })
    const value = (await client.next(FrameType.BLOB, 0)) as Uint8Array
    expect(Buffer.from(value.subarray(0, 32)).toString('hex')).toBe(blob)
    expect(Buffer.compare(value.subarray(32), content)).toBe(0)
    const order = client.received.map((one) => one.type)
    expect(order.indexOf(FrameType.RESPONSE)).toBeLessThan(order.indexOf(FrameType.BLOB))
    expect(await client.request(0, 'fetch_blob', { blob: 'b'.repeat(64) })).toMatchObject({
      error: { code: 'not_found' },
    })
  })

  test('what the rooms answer on channel 0 is handed to them', async () => {
    const server = await start()
    server.rooms.connectionRequest = async (method, args) => ({ method, args })
    const client = await server.connect()
    expect((await client.request(0, 'list_rooms', { limit: 3 })).value).toEqual({
      method: 'list_rooms',
      args: { inactive: false, limit: 3 },
    })
  })
})
