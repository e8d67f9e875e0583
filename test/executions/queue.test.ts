import { afterEach, describe, expect, test } from 'vitest'
import { RoomdError } from '../../protocol/errors.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import { kernelRow, ScriptedKernel, TestRoom, type TestRoomOptions } from './support.ts'

const rooms: TestRoom[] = []

function makeRoom(options: TestRoomOptions = {}): TestRoom {
  const room = new TestRoom(options)
  rooms.push(room)
  return room
}

function kernelOf(room: TestRoom): ScriptedKernel {
  if (!room.present) throw new Error('the room has no kernel')
  return room.present
}

afterEach(async () => {
  for (const room of rooms.splice(0)) await room.close()
})

describe('one execution', () => {
  test('is queued, started, has its result and ends, in two commits', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    kernel.onExecute = (id) => {
      kernel.begin(id)
      kernel.display(id, { 'text/plain': '1' }, undefined, 'execute_result')
      kernel.end(id)
    }
    const before = room.commits
    const id = await room.run(room.addCell('1'))
    await room.rest()
    expect(room.told.map((event) => event.type)).toEqual([
      'execution_queued',
      'execution_started',
      'output',
      'execution_finished',
    ])
    expect(room.commits - before).toBe(2)
    expect(room.mirror.texts(id)).toEqual(['result:1'])
    const execution = room.executions.get(id)
    expect(execution).toMatchObject({ status: 'done', execution_count: 1, by: 'test', truncated: false })
    expect(kernel.acknowledged).toBe(kernel.seq)
    expect(kernel.sent[0]).toMatchObject({
      requestId: id,
      channel: 'shell',
      msgType: 'execute_request',
      content: { code: '1', silent: false, store_history: true, allow_stdin: true, stop_on_error: false },
    })
    expect(room.executions.idle).toBe(true)
  })

  test('code of no cell runs, and twice is twice', async () => {
    const room = makeRoom()
    const first = await room.run({ code: 'x' })
    const second = await room.run({ code: 'x' })
    expect(second).not.toBe(first)
    expect(room.executions.get(first)?.cell_id).toBeNull()
  })

  test('a cell that is queued or running is not queued again', async () => {
    const room = makeRoom()
    const cell = room.addCell('1')
    const first = await room.run(cell)
    expect(await room.run(cell)).toBe(first)
    await room.rest()
    kernelOf(room).begin(first)
    await room.rest()
    expect(await room.run(cell)).toBe(first)
    kernelOf(room).end(first)
    await room.rest()
    expect(await room.run(cell)).not.toBe(first)
  })

  test('a cell of blanks is done at once, without a kernel', async () => {
    const room = makeRoom({ kernel: null })
    const cell = room.addCell(' \n\t')
    const id = await room.run(cell)
    expect(room.executions.ofCell(cell)).toMatchObject({
      execution_id: id,
      status: 'done',
      execution_count: null,
    })
    expect(room.executions.idle).toBe(true)
    expect(room.mirror.statuses.get(id)).toEqual(['queued', 'done'])
  })

  test('a markdown cell and a missing cell are refused', () => {
    const room = makeRoom()
    const cell = room.addCell('# text', 'words', 'markdown')
    const ask = (cell_id: typeof cell) => () =>
      room.executions.execute({ cell_id, on_error: 'stop', allow_stdin: true, by: 'test' })
    expect(ask(cell)).toThrow(/only code cells run/)
    expect(ask('absent' as typeof cell)).toThrow(/no cell absent/)
  })

  test('is sent only after a commit that says to which kernel', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    room.holding = true
    const made = room.executions.execute({ code: '1', on_error: 'stop', allow_stdin: true, by: 'test' })
    const committed = room.commit({ statements: made.statements, events: made.events })
    await room.rest()
    expect(kernel.sent).toEqual([])
    room.release()
    await committed
    room.executions.admitted([made.execution.execution_id])
    await room.rest()
    expect(kernel.sent).toHaveLength(1)
    const row = room.store.get<{ kernel_id: string }>('SELECT kernel_id FROM executions')
    expect(row?.kernel_id).toBe(kernel.id)
  })
})

describe('the queue', () => {
  test('runs one at a time, in order, the next after the end of the one before is durable', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const ids = [await room.run({ code: 'a' }), await room.run({ code: 'b' }), await room.run({ code: 'c' })]
    const [a, b, c] = ids as [ExecutionId, ExecutionId, ExecutionId]
    await room.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([a])
    room.holding = true
    kernel.begin(a)
    kernel.end(a)
    await room.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([a])
    room.holding = false
    room.release()
    await room.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([a, b])
    expect(room.executions.queued.map((execution) => execution.execution_id)).toEqual([b, c])
    kernel.begin(b)
    kernel.end(b)
    await room.rest()
    kernel.begin(c)
    kernel.end(c)
    await room.rest()
    expect(ids.map((id) => room.executions.get(id)?.status)).toEqual(['done', 'done', 'done'])
  })

  test('queueing is allowed while the kernel starts', async () => {
    const room = makeRoom({ kernel: null })
    const kernel = new ScriptedKernel()
    await room.store.write([kernelRow(kernel, room.id)])
    let ready = () => {}
    room.start = () =>
      new Promise((resolve) => {
        ready = () => {
          room.present = kernel
          room.listen()
          resolve(kernel)
        }
      })
    const first = await room.run({ code: '1' })
    const second = await room.run({ code: '2' })
    await room.rest()
    expect(room.executions.queued).toHaveLength(2)
    ready()
    await room.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([first])
    kernel.begin(first)
    kernel.end(first)
    await room.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([first, second])
  })

  test('a failed start ends everything queued with the reason', async () => {
    const room = makeRoom({ kernel: null })
    room.start = async () => {
      throw new RoomdError(
        'kernel_start_failed',
        'the kernel did not start; last lines of stderr:\nno module named x',
      )
    }
    const ids = await Promise.all([room.run({ code: '1' }), room.run({ code: '2' })])
    await room.rest()
    for (const id of ids) {
      const execution = room.executions.get(id)
      expect(execution?.status).toBe('error')
      expect(execution?.reason).toContain('no module named x')
    }
    expect(room.executions.idle).toBe(true)
  })

  test('a daemon that stops while the kernel starts leaves the queue to the next', async () => {
    const room = makeRoom({ kernel: null })
    room.start = async () => {
      throw new RoomdError('shutting_down', 'stopping')
    }
    const id = await room.run({ code: '1' })
    await room.rest()
    expect(room.executions.get(id)?.status).toBe('queued')
  })

  test('run_all queues each code cell once, and an error cancels the rest of it and nothing else', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    for (const source of ['a', 'b', ' ', 'c']) room.addCell(source)
    room.addCell('text', 'words', 'markdown')
    const [a, b, blank, c] = (await room.runAll()) as [ExecutionId, ExecutionId, ExecutionId, ExecutionId]
    const other = await room.run({ code: 'other' })
    kernel.onExecute = (id) => {
      kernel.begin(id)
      if (id === b) kernel.fail(id)
      else kernel.end(id)
    }
    await room.rest()
    kernel.begin(a)
    kernel.end(a)
    await room.rest()
    const status = (id: ExecutionId) => room.executions.get(id)?.status
    expect([a, b, blank, c, other].map(status)).toEqual(['done', 'error', 'done', 'cancelled', 'done'])
    expect(room.executions.get(b)?.reason).toBe('ValueError: bad')
    expect(room.mirror.texts(b)).toEqual(['error:ValueError'])
  })

  test('with on_error continue the rest runs', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    room.addCell('a')
    room.addCell('b')
    kernel.onExecute = (id, code) => {
      kernel.begin(id)
      if (code === 'a') kernel.fail(id)
      else kernel.end(id)
    }
    const ids = await room.runAll('continue')
    await room.rest()
    expect(ids.map((id) => room.executions.get(id)?.status)).toEqual(['error', 'done'])
  })

  test('run_all returns the present execution of a cell that is queued already', async () => {
    const room = makeRoom()
    const first = await room.run(room.addCell('a'))
    room.addCell('b')
    const ids = await room.runAll()
    expect(ids).toHaveLength(2)
    expect(ids[0]).toBe(first)
  })
})

describe('stopping', () => {
  test('interrupt ends the running one and cancels the queue of that moment; later ones run', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const running = await room.run({ code: 'loop' })
    const waiting = await room.run({ code: 'next' })
    await room.rest()
    kernel.begin(running)
    await room.rest()
    kernel.onInterrupt = () => kernel.fail(running, 'KeyboardInterrupt', '')
    const answer = room.executions.interrupt()
    const later = await room.run({ code: 'later' })
    await room.rest()
    expect(await answer).toEqual({ interrupted: running, cancelled: [waiting] })
    expect(room.executions.get(running)?.status).toBe('interrupted')
    expect(room.mirror.texts(running)).toEqual(['error:KeyboardInterrupt'])
    expect(room.executions.get(waiting)?.status).toBe('cancelled')
    expect(kernel.sent.map((request) => request.requestId)).toEqual([running, later])
  })

  test('a kernel that does not stop is offered to be restarted, and nothing is ended by a clock', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const running = await room.run({ code: 'loop' })
    await room.rest()
    kernel.begin(running)
    await room.rest()
    const answer = room.executions.interrupt()
    await room.rest(5_100)
    expect(await answer).toEqual({ interrupted: null, cancelled: [], offer: 'restart' })
    expect(room.executions.running?.execution_id).toBe(running)
    kernel.state = 'busy'
    room.clock.advance(86_400_000)
    await room.rest()
    expect(room.executions.running?.execution_id).toBe(running)
  })

  test('an interrupt that comes before the kernel has begun is repeated when it begins', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const id = await room.run({ code: 'loop' })
    await room.rest()
    const answer = room.executions.interrupt()
    await room.rest()
    expect(kernel.interrupts).toBe(1)
    kernel.onInterrupt = () => kernel.fail(id, 'KeyboardInterrupt', '')
    kernel.begin(id)
    await room.rest()
    expect(kernel.interrupts).toBe(2)
    expect(await answer).toEqual({ interrupted: id, cancelled: [] })
  })

  test('interrupt with nothing running cancels the queue and leaves the kernel alone', async () => {
    const room = makeRoom({ kernel: null })
    room.start = () => new Promise(() => {})
    const id = await room.run({ code: '1' })
    expect(await room.executions.interrupt()).toEqual({ interrupted: null, cancelled: [id] })
  })

  test('cancel takes a queued one out, and interrupts a running one without touching the queue', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const running = await room.run({ code: 'a' })
    const second = await room.run({ code: 'b' })
    const third = await room.run({ code: 'c' })
    await room.rest()
    kernel.begin(running)
    await room.rest()
    expect(await room.executions.cancel(second)).toMatchObject({ status: 'cancelled' })
    kernel.onInterrupt = () => kernel.fail(running, 'KeyboardInterrupt', '')
    const cancelled = room.executions.cancel(running)
    await room.rest()
    expect(await cancelled).toMatchObject({ execution_id: running, status: 'interrupted' })
    await room.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([running, third])
    expect(await room.executions.cancel(second)).toMatchObject({ status: 'cancelled' })
    await expect(room.executions.cancel('absent' as ExecutionId)).rejects.toMatchObject({ code: 'not_found' })
  })

  test.each([
    ['died', 'lost'],
    ['restarted', 'interrupted'],
    ['shutdown', 'interrupted'],
  ] as const)(
    'when the kernel is %s, what ran is %s and what waited is cancelled, with what was printed',
    async (ending, expected) => {
      const room = makeRoom()
      const kernel = kernelOf(room)
      const running = await room.run({ code: 'a' })
      const waiting = await room.run({ code: 'b' })
      await room.rest()
      kernel.begin(running)
      kernel.print(running, 'so far')
      room.executions.kernelGone('the reason', ending)
      room.present = null
      expect(room.executions.idle).toBe(true)
      kernel.print(running, 'too late')
      await room.rest()
      expect(room.executions.get(running)).toMatchObject({ status: expected, reason: 'the reason' })
      expect(room.executions.get(waiting)).toMatchObject({
        status: 'cancelled',
        reason: 'it was not run: the reason',
      })
      expect(room.mirror.texts(running)).toEqual(['stdout:so far'])
      expect(room.mirror.statuses.get(running)).toEqual(['queued', 'running', expected])
    },
  )

  test('death is told by the event too, with signal and last words, once', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const id = await room.run({ code: 'a' })
    await room.rest()
    kernel.begin(id)
    kernel.die()
    room.executions.kernelGone('something less exact', 'died')
    await room.rest()
    expect(room.executions.get(id)?.reason).toContain('SIGKILL')
    expect(room.executions.get(id)?.reason).toContain('last words')
    expect(room.mirror.statuses.get(id)).toEqual(['queued', 'running', 'lost'])
  })
})

describe('odd kernels', () => {
  test('a reply that was lost makes the execution lost', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const id = await room.run({ code: 'a' })
    await room.rest()
    kernel.begin(id)
    kernel.emit({ kind: 'gap', reason: 'the host died' })
    kernel.end(id, null)
    await room.rest()
    expect(room.executions.get(id)?.status).toBe('lost')
    expect(room.told.find((event) => event.type === 'kernel_gap')).toMatchObject({
      execution_id: id,
      reason: 'the host died',
    })
  })

  test('a queue that hangs although the kernel is idle is released after the kernel was asked', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const id = await room.run({ code: 'a' })
    const next = await room.run({ code: 'b' })
    await room.rest()
    kernel.begin(id)
    await room.rest(1_500)
    kernel.state = 'idle'
    room.clock.advance(10_000)
    await room.rest()
    expect(kernel.asked).toEqual(['kernel_info_request'])
    expect(room.executions.get(id)?.status).toBe('running')
    room.clock.advance(10_000)
    await room.rest()
    expect(room.executions.get(id)).toMatchObject({ status: 'lost' })
    expect(kernel.sent.map((request) => request.requestId)).toEqual([id, next])
  })

  test('messages of nobody, comm messages and unknown types change nothing', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    kernel.say(null, 'status', { execution_state: 'starting' })
    kernel.say('somebody-else', 'stream', { name: 'stdout', text: 'x' })
    const id = await room.run({ code: 'a' })
    await room.rest()
    kernel.begin(id)
    kernel.say(id, 'comm_open', { comm_id: 'c', target_name: 't', data: {} })
    kernel.say(id, 'comm_msg', { comm_id: 'c', data: {} })
    kernel.say(id, 'something_new', {})
    kernel.say(id, 'stream', { text: 7 })
    kernel.say(id, 'display_data', {})
    kernel.end(id)
    await room.rest(1_500)
    expect(room.executions.get(id)?.status).toBe('done')
    expect(kernel.acknowledged).toBe(kernel.seq)
  })

  test('an event that is given again is taken once', async () => {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const id = await room.run({ code: 'a' })
    await room.rest()
    kernel.begin(id)
    kernel.print(id, 'once\n')
    room.listen()
    await room.rest()
    kernel.end(id)
    await room.rest()
    expect(room.mirror.texts(id)).toEqual(['stdout:once\n'])
  })
})

describe('input', () => {
  async function asking(): Promise<{ room: TestRoom; kernel: ScriptedKernel; id: ExecutionId }> {
    const room = makeRoom()
    const kernel = kernelOf(room)
    const id = await room.run({ code: 'input()' })
    await room.rest()
    kernel.begin(id)
    kernel.print(id, 'before\n')
    kernel.say(id, 'input_request', { prompt: 'name? ', password: true }, 'stdin')
    await room.rest()
    return { room, kernel, id }
  }

  test('is told with prompt and password flag, and the first answer wins', async () => {
    const { room, kernel, id } = await asking()
    expect(room.executions.running).toMatchObject({
      status: 'waiting_for_input',
      prompt: 'name? ',
      password: true,
    })
    const first = room.executions.sendInput(id, 'me', 'Ann')
    await expect(room.executions.sendInput(id, 'no, me', 'Bob')).rejects.toMatchObject({ code: 'conflict' })
    await first
    expect(kernel.sent.at(-1)).toMatchObject({
      channel: 'stdin',
      msgType: 'input_reply',
      content: { value: 'me' },
      parentId: expect.stringContaining('input_request'),
    })
    expect(room.executions.running?.status).toBe('running')
    expect(room.executions.running?.prompt).toBeUndefined()
    expect(room.told.at(-1)).toEqual({ type: 'input_answered', execution_id: id, by: 'Ann' })
    await expect(room.executions.sendInput(id, 'again', 'Bob')).rejects.toMatchObject({ code: 'conflict' })
    kernel.print(id, 'hello me\n')
    kernel.end(id)
    await room.rest()
    expect(room.executions.get(id)?.status).toBe('done')
  })

  test('an answer that was sent before a crash is not sent twice', async () => {
    const { room, kernel, id } = await asking()
    room.holding = true
    void room.executions.sendInput(id, 'me', 'Ann')
    await room.rest()
    const next = room.crash()
    rooms.push(next)
    await next.rest()
    expect(next.executions.running?.status).toBe('waiting_for_input')
    await expect(next.executions.sendInput(id, 'second', 'Bob')).rejects.toMatchObject({ code: 'conflict' })
    expect(next.executions.running?.status).toBe('running')
    expect(kernel.sent.filter((request) => request.msgType === 'input_reply')).toHaveLength(1)
  })

  test('the end of the execution ends the waiting', async () => {
    const { room, kernel, id } = await asking()
    kernel.fail(id, 'KeyboardInterrupt', '')
    await room.rest()
    expect(room.executions.get(id)).toMatchObject({ status: 'interrupted' })
    expect(room.executions.get(id)?.prompt).toBeUndefined()
  })
})
