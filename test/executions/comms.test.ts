/** Comms as the room keeps them: bounds, crashes between any two commits, supersession, and Output widgets. */
import { afterEach, describe, expect, test } from 'vitest'
import { Change } from '../../daemon/executions/change.ts'
import { viewOf } from '../../daemon/executions/comms/comm.ts'
import { COMM_STATE_MAX, type CommId, type CommView, putBuffers, takeBuffers } from '../../protocol/comms.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { ScriptedKernel, TestRoom } from './support.ts'
import { TestRoom as Room } from './support.ts'

const rooms: Room[] = []
afterEach(async () => {
  for (const room of rooms.splice(0).reverse()) await room.close()
})

function makeRoom(): { room: Room; kernel: ScriptedKernel } {
  const room = new Room()
  rooms.push(room)
  const kernel = room.present
  if (!kernel) throw new Error('no kernel')
  return { room, kernel }
}

const w = 'w' as CommId

function open(
  kernel: ScriptedKernel,
  state: Record<string, unknown>,
  parent: string | null = null,
  id = 'w',
): void {
  kernel.say(parent, 'comm_open', { comm_id: id, target_name: 'jupyter.widget', data: { state } })
}

function update(
  kernel: ScriptedKernel,
  state: Record<string, unknown>,
  parent: string | null = null,
  method = 'update',
): void {
  kernel.say(parent, 'comm_msg', { comm_id: 'w', data: { method, state } })
}

const views = (room: TestRoom): CommView[] => room.executions.comms.snapshots().map((one) => viewOf(one))
const stateOf = (room: TestRoom): Record<string, unknown> | undefined => views(room)[0]?.state

/** As the room's handlers do it. */
async function peerSets(room: TestRoom, state: Record<string, unknown>): Promise<string> {
  const data = { method: 'update', state }
  const made = room.executions.comms.message(w, { data, metadata: {}, buffers: [] }, 'Ann', new Change())
  await room.commit({ statements: made.statements, events: made.events })
  room.executions.comms.committed([made.messageId])
  return made.messageId
}

const told = (room: TestRoom, type: DurableEvent['type']) => room.told.filter((event) => event.type === type)

const rowsOf = (room: TestRoom, table: string): number =>
  room.store.get<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE notebook_id = ?`, room.id)?.n ?? -1

describe('buffers', () => {
  test('go to their places and back', () => {
    const bytes = [new Uint8Array([1]), new Uint8Array([2, 3])]
    const state = { a: { b: [0, null] }, x: 1 }
    const whole = putBuffers(state, [['a', 'b', 1], ['y']], bytes)
    expect(whole).toEqual({ a: { b: [0, bytes[0]] }, x: 1, y: bytes[1] })
    expect(state).toEqual({ a: { b: [0, null] }, x: 1 })
    expect(takeBuffers(whole)).toEqual({ state, buffer_paths: [['a', 'b', 1], ['y']], buffers: bytes })
  })

  test('paths that lead nowhere, into prototypes or beyond a list change nothing', () => {
    const byte = new Uint8Array([1])
    for (const path of [[], ['a', 'b'], ['n', 5], ['__proto__', 'polluted'], [{}], 'a', ['n', 'length']])
      expect(putBuffers({ n: [1] }, [path], [byte])).toEqual({ n: [1] })
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })
})

describe('state', () => {
  test('is what the kernel said last, told as the newest of each commit, and forgotten with the close', async () => {
    const { room, kernel } = makeRoom()
    open(kernel, { value: 0, other: 'a' })
    await room.rest()
    for (let i = 1; i <= 1000; i++) update(kernel, { value: i })
    await room.rest()
    expect(stateOf(room)).toEqual({ value: 1000, other: 'a' })
    expect(told(room, 'comm_updated').length).toBeLessThan(5)
    expect(told(room, 'comm_updated').at(-1)).toMatchObject({ state: { value: 1000 }, by: null })
    kernel.say(null, 'comm_close', { comm_id: 'w', data: {} })
    await room.rest()
    expect(views(room)).toEqual([])
    expect([rowsOf(room, 'comms'), rowsOf(room, 'comm_state')]).toEqual([0, 0])
  })

  test('is there after a crash between any two commits, and what was on its way to the kernel is sent once', async () => {
    for (let crashAt = 0; crashAt < 6; crashAt++) {
      const { room, kernel } = makeRoom()
      const id = await room.run({ code: 'x' })
      await room.rest()
      room.holding = true
      kernel.begin(id)
      open(kernel, { value: 0, from: 'kernel' }, id)
      update(kernel, { value: 1 }, id)
      await room.rest()
      room.release(crashAt)
      await room.rest()
      let messages = 0
      if (room.executions.comms.snapshots().length > 0) {
        void peerSets(room, { value: 2 })
        messages = 1
        await room.rest()
        room.release(crashAt % 2)
        await room.rest()
      }
      const next = room.crash()
      rooms.push(next)
      await next.rest()
      kernel.end(id)
      await next.rest()
      const sent = kernel.sent.filter((request) => request.msgType === 'comm_msg')
      expect(sent.length).toBeLessThanOrEqual(messages)
      // The peer's message is durable with its value, or neither is there.
      expect(stateOf(next)).toEqual({ value: sent.length === 1 ? 2 : 1, from: 'kernel' })
      expect(views(next)[0]?.execution_id).toBe(id)
      for (const { requestId } of sent) kernel.emit({ kind: 'settled', request_id: requestId, reply: null })
      await next.rest()
      expect(rowsOf(next, 'comm_sends')).toBe(0)
    }
  })

  test('is gone with the kernel, also when no daemon lived to see it go', async () => {
    const { room, kernel } = makeRoom()
    open(kernel, { value: 0 })
    await room.rest()
    const next = room.crash(null)
    rooms.push(next)
    expect(views(next)).toEqual([])
    await next.rest()
    expect(told(next, 'comms_gone')).toHaveLength(1)
    expect([rowsOf(next, 'comms'), rowsOf(next, 'comm_state')]).toEqual([0, 0])
  })

  test('is bounded: the longest silent lose it and say so', async () => {
    const { room, kernel } = makeRoom()
    const value = 'x'.repeat(8 * 1024 * 1024)
    for (let i = 0; i < 7; i++) {
      open(kernel, { value, i }, null, `w${i}`)
      await room.rest(20)
    }
    await room.rest()
    const partial = views(room).map((view) => view.partial)
    expect(partial).toEqual([true, true, false, false, false, false, false])
    expect(views(room)[0]?.state).toEqual({})
    const kept = room.store.get<{ n: number }>('SELECT sum(length(value)) AS n FROM comm_state')?.n ?? 0
    expect(kept).toBeLessThanOrEqual(COMM_STATE_MAX)
    expect(told(room, 'comm_updated').filter((event) => 'partial' in event && event.partial)).toHaveLength(2)
  })

  test('values too large for events are named, and read', async () => {
    const { room, kernel } = makeRoom()
    open(kernel, { big: 'x'.repeat(100_000), small: 1 })
    await room.rest()
    expect(views(room)[0]).toMatchObject({ state: { small: 1 }, omitted: ['big'] })
    expect(room.executions.comms.get(w, ['big'])).toMatchObject({
      state: { big: 'x'.repeat(100_000) },
      omitted: [],
    })
    const data = { method: 'custom', content: 'y'.repeat(100_000) }
    kernel.say(null, 'comm_msg', { comm_id: 'w', data })
    await room.rest()
    const [message] = told(room, 'comm_message')
    if (message?.type !== 'comm_message') throw new Error('no message was told')
    expect(message.content).toBeUndefined()
    expect(room.executions.comms.largeMessage(message.message_id).data).toEqual(data)
  })
})

describe('supersession', () => {
  test('until the kernel has taken up what a peer said, older words of it are passed over', async () => {
    const { room, kernel } = makeRoom()
    open(kernel, { value: 0, other: 0 })
    await room.rest()
    const first = await peerSets(room, { value: 1 })
    const second = await peerSets(room, { value: 2 })
    update(kernel, { value: 1, other: 7 }, first, 'echo_update')
    await room.rest()
    expect(stateOf(room)).toEqual({ value: 2, other: 7 })
    kernel.emit({ kind: 'settled', request_id: first, reply: null })
    update(kernel, { value: 99 }, 'a cell that ran before it')
    await room.rest()
    expect(stateOf(room)).toEqual({ value: 2, other: 7 })
    // A correction answers the message itself.
    update(kernel, { value: 3 }, second)
    kernel.emit({ kind: 'settled', request_id: second, reply: null })
    await room.rest()
    expect(stateOf(room)).toEqual({ value: 3, other: 7 })
    update(kernel, { value: 4 }, 'a later cell')
    await room.rest()
    expect(stateOf(room)).toEqual({ value: 4, other: 7 })
  })

  test('it holds across a restart of the daemon', async () => {
    const { room, kernel } = makeRoom()
    open(kernel, { value: 0 })
    await room.rest()
    const message = await peerSets(room, { value: 1 })
    await room.rest()
    const next = room.crash()
    rooms.push(next)
    update(kernel, { value: 0 }, null)
    await next.rest()
    expect(stateOf(next)).toEqual({ value: 1 })
    kernel.emit({ kind: 'settled', request_id: message, reply: null })
    update(kernel, { value: 5 }, null)
    await next.rest()
    expect(stateOf(next)).toEqual({ value: 5 })
  })

  test('what waits for the kernel is bounded', async () => {
    const { room, kernel } = makeRoom()
    open(kernel, {})
    await room.rest()
    const data = { method: 'custom', content: 'x'.repeat(15 * 1024 * 1024) }
    const send = () =>
      room.executions.comms.message(w, { data, metadata: {}, buffers: [] }, 'Ann', new Change())
    for (let i = 0; i < 4; i++) send()
    expect(send).toThrow(expect.objectContaining({ code: 'overloaded' }))
  })
})

describe('an Output widget', () => {
  const model = {
    _model_module: '@jupyter-widgets/output',
    _model_name: 'OutputModel',
    msg_id: '',
    outputs: [],
  }

  async function capturing(): Promise<{ room: Room; kernel: ScriptedKernel; id: ExecutionId }> {
    const { room, kernel } = makeRoom()
    open(kernel, model)
    const id = await room.run({ code: 'with out:' })
    await room.rest()
    kernel.begin(id)
    kernel.print(id, 'outside\n')
    update(kernel, { msg_id: id }, id)
    return { room, kernel, id }
  }

  const captured = (room: TestRoom) => stateOf(room)?.outputs
  const stream = (text: string, name = 'stdout') => ({ output_type: 'stream', name, text })

  test('takes what its msg_id names instead of the cell, shaped as a terminal would, and tells the kernel', async () => {
    const { room, kernel, id } = await capturing()
    kernel.print(id, 'in')
    kernel.print(id, 'side\n10%\r100%\n')
    kernel.display(id, { 'text/plain': 'a picture' })
    update(kernel, { msg_id: '' }, id)
    kernel.print(id, 'outside again\n')
    kernel.end(id)
    await room.rest()
    const outputs = [
      stream('inside\n100%\n'),
      { output_type: 'display_data', data: { 'text/plain': 'a picture' }, metadata: {} },
    ]
    expect(captured(room)).toEqual(outputs)
    expect(room.mirror.texts(id)).toEqual(['stdout:outside\noutside again\n'])
    const sent = kernel.sent.filter((request) => request.msgType === 'comm_msg')
    expect(sent.map((request) => request.content.data)).toEqual([
      { method: 'update', state: { outputs }, buffer_paths: [] },
    ])
  })

  test('clears as a cell does: at once, with the next output, and not without one', async () => {
    const { room, kernel, id } = await capturing()
    kernel.print(id, 'hello\n')
    kernel.say(id, 'clear_output', { wait: true })
    await room.rest()
    expect(captured(room)).toEqual([stream('hello\n')])
    kernel.print(id, 'world\n')
    await room.rest()
    expect(captured(room)).toEqual([stream('world\n')])
    kernel.say(id, 'clear_output', { wait: false })
    await room.rest()
    expect(captured(room)).toEqual([])
    expect(room.mirror.texts(id)).toEqual(['stdout:outside\n'])
  })

  test('of nested ones the inner takes it, and the outer again afterwards', async () => {
    const { room, kernel, id } = await capturing()
    open(kernel, model, null, 'inner')
    const inner = (msg_id: string) =>
      kernel.say(id, 'comm_msg', { comm_id: 'inner', data: { method: 'update', state: { msg_id } } })
    kernel.print(id, 'in outer\n')
    inner(id)
    kernel.print(id, 'in inner\n')
    inner('')
    kernel.print(id, 'also in outer\n')
    await room.rest()
    expect(views(room).map((view) => view.state.outputs)).toEqual([
      [stream('in outer\nalso in outer\n')],
      [stream('in inner\n')],
    ])
  })

  test('goes on capturing after a crash of the daemon, and keeps its errors and the updates of its displays', async () => {
    const { room, kernel, id } = await capturing()
    kernel.print(id, 'one\n')
    kernel.display(id, { 'text/plain': 'old' }, 'shown')
    await room.rest()
    kernel.say(id, 'update_display_data', {
      data: { 'text/plain': 'new' },
      metadata: {},
      transient: { display_id: 'shown' },
    })
    await room.rest()
    const next = room.crash()
    rooms.push(next)
    await next.rest()
    kernel.say(id, 'error', { ename: 'ValueError', evalue: 'x', traceback: ['ValueError: x'] })
    update(kernel, { msg_id: '' }, id)
    kernel.end(id)
    await next.rest()
    expect(captured(next)).toEqual([
      stream('one\n'),
      { output_type: 'display_data', data: { 'text/plain': 'new' }, metadata: {} },
      { output_type: 'error', ename: 'ValueError', evalue: 'x', traceback: ['ValueError: x'] },
    ])
    expect(next.executions.get(id)?.status).toBe('done')
    expect(kernel.sent.filter((request) => request.msgType === 'comm_msg')).toHaveLength(1)
  })

  test('is bounded: the oldest is left out, and a marker says exactly how much', async () => {
    const { room, kernel, id } = await capturing()
    const line = 'ä'.repeat(999)
    for (let i = 0; i < 1000; i++) kernel.print(id, `${line}\n`)
    await room.rest(200)
    const { comm } = { comm: room.executions.comms.get(w, ['outputs']) }
    const [marker, rest] = comm.state.outputs as { text: string }[]
    const missing = Number(/^\[roomd: (\d+) bytes/.exec(marker?.text ?? '')?.[1])
    const kept = Buffer.byteLength(rest?.text ?? '')
    expect(missing + kept).toBe(1000 * Buffer.byteLength(`${line}\n`))
    expect(rest?.text.startsWith('ä')).toBe(true)
    expect(kept).toBeLessThan(1024 * 1024)
  })
})
