/** Comms through the SDK, the real daemon and ipykernel: state for late peers, messages both ways, and a daemon that is killed. */
import { expect, test } from 'vitest'
import type { Comm } from '../../client/sdk/comms.ts'
import { connect } from '../../client/sdk/connect.ts'
import type { Room } from '../../client/sdk/room.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { needs } from '../support/machine.ts'
import { until, within } from '../support/until.ts'

/** What ipywidgets does, by ipykernel's own comms: a model with state, which takes updates, and echoes them when asked to. */
const WIDGET = `
from ipykernel.comm import Comm
class Model:
    def __init__(self, state, buffer_paths=[], buffers=None, echo=False, comm_id=None):
        self.state, self.echo, self.got = dict(state), echo, []
        self.comm = Comm(target_name='jupyter.widget', data={'state': state, 'buffer_paths': buffer_paths},
                         metadata={'version': '2.1.0'}, buffers=buffers, comm_id=comm_id)
        self.comm.on_msg(self.take)
    def take(self, msg):
        data = msg['content']['data']
        self.got.append(data)
        if data.get('method') == 'update':
            self.state.update(data['state'])
            if self.echo: self.comm.send({'method': 'echo_update', 'state': data['state'], 'buffer_paths': []})
            if data['state'].get('value') == 1000: self.set(value=100)
        elif data.get('method') == 'custom':
            print('clicked', data['content'], [bytes(b) for b in msg['buffers']])
    def set(self, buffer_paths=[], buffers=None, **state):
        self.comm.send({'method': 'update', 'state': state, 'buffer_paths': buffer_paths}, buffers=buffers)
`

async function ran(room: Room, code: string): Promise<string> {
  const run = await room.execute({ code })
  const { status } = await within(`the end of ${code}`, run.done)
  const outputs = room.state.execution(run.id)?.outputs ?? []
  const texts = outputs.map((o) => (o.output_type === 'stream' ? String(o.text) : JSON.stringify(o)))
  if (status !== 'done') throw new Error(`${status}: ${texts.join('')}`)
  return texts.join('')
}

const opened = (room: Room, id: string): Promise<Comm> => until(`the comm ${id}`, () => room.comms.get(id))

test('a widget has one state for the kernel and all peers, late ones too, and is gone with the kernel', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    const daemon = await startDaemon(home)
    const one = await connect({ env: home.env, label: 'one' })
    const two = await connect({ env: home.env, label: 'two' })
    try {
      const a = await one.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      await ran(a, WIDGET)
      await ran(
        a,
        `m = Model({'value': 1, 'nested': {'data': None}, 'list': [None, 2]},
           [['nested', 'data'], ['list', 0]], [b'\\x00\\x01', b'\\xff'], comm_id='w')`,
      )
      const left = await opened(a, 'w')
      expect(left).toMatchObject({ targetName: 'jupyter.widget', metadata: { version: '2.1.0' } })
      await ran(a, `m.set(value=2, extra='new'); m.set([['list', 1]], [b'ab'], list=[0, None])`)

      // A late peer gets comm_open and the state.
      const b = await two.openRoom({ notebook_id: a.id })
      const right = await opened(b, 'w')
      const state = {
        value: 2,
        extra: 'new',
        nested: { data: new Uint8Array([0, 1]) },
        list: [0, new Uint8Array([97, 98])],
      }
      expect(right.state).toEqual(state)
      expect(left.state).toEqual(state)
      expect(await b.comms.info()).toEqual({ w: { target_name: 'jupyter.widget' } })
      expect(await b.comms.info('other')).toEqual({})

      // What one peer sets, the other and the kernel have.
      const seen: unknown[] = []
      left.on('update', (update) => seen.push(update))
      await right.set({ value: 3, nested: { data: new Uint8Array([7]) } })
      expect(right.state.value).toBe(3)
      await until('the other peer', () => left.state.value === 3)
      expect(seen).toEqual([
        { state: { value: 3, nested: { data: new Uint8Array([7]) } }, omitted: [], by: 'two' },
      ])
      expect(await ran(a, `print(m.state['value'], m.got[-1]['buffer_paths'])`)).toBe(
        "3 [['nested', 'data']]\n",
      )

      // Messages that are no updates go both ways, with buffers; what a callback prints is under the run that made the widget.
      const messages: unknown[] = []
      right.on('message', (message) => messages.push(message))
      await ran(a, `m.comm.send({'method': 'custom', 'content': 'hey'}, buffers=[b'xyz'])`)
      await until('the message', () => messages.length > 0)
      expect(messages).toEqual([
        {
          data: { method: 'custom', content: 'hey' },
          metadata: {},
          buffers: [new Uint8Array([120, 121, 122])],
        },
      ])
      await left.send({ method: 'custom', content: 'press' }, { buffers: [new Uint8Array([65])] })
      const maker = left.executionId
      if (!maker) throw new Error('no execution made it')
      await until('what the callback printed', () =>
        a.state
          .execution(maker)
          ?.outputs.some(
            (o) => o.output_type === 'stream' && String(o.text).includes("clicked press [b'A']"),
          ),
      )

      // Closed by the kernel: gone for all.
      const ends: unknown[] = []
      right.on('close', (end) => ends.push(end))
      await ran(a, `m.comm.close({'bye': 1})`)
      await until('the end', () => ends.length > 0)
      expect(ends).toEqual([{ data: { bye: 1 } }])
      expect([...a.comms.all.keys(), ...b.comms.all.keys()]).toEqual([])
      await expect(right.send({})).rejects.toMatchObject({ code: 'not_found' })

      // With the kernel all are gone.
      await ran(a, `n = Model({'value': 0}, comm_id='n')`)
      const last = await opened(b, 'n')
      const gone = new Promise((resolve) => last.on('close', resolve))
      await a.restartKernel()
      expect(await within('the news', gone)).toMatchObject({ reason: 'the kernel was restarted' })
      const late = await two.openRoom({ notebook_id: a.id })
      expect([...late.comms.all.keys()]).toEqual([])
      await daemon.stop()
    } finally {
      await Promise.allSettled([one.close(), two.close()])
    }
  }))

test('a peer opens a comm to a target of the kernel; one to no target is closed again', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    await startDaemon(home)
    const client = await connect({ env: home.env })
    try {
      const room = await client.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      await expect(room.comms.open('none')).rejects.toMatchObject({ code: 'runtime_not_ready' })
      await ran(
        room,
        `def made(comm, msg):
    comm.send({'echo': msg['content']['data']}, buffers=msg['buffers'])
    comm.on_close(lambda msg: print('closed', msg['content']['data']))
get_ipython().kernel.comm_manager.register_target('here', made)`,
      )
      const heard: unknown[] = []
      room.comms.on('open', (comm) => comm.on('message', (message) => heard.push(message.data)))
      const comm = await room.comms.open('here', { data: { a: 1 } })
      await until('the answer', () => heard.length > 0)
      expect(heard).toEqual([{ echo: { a: 1 } }])
      await comm.close({ done: true })
      expect(comm.open).toBe(false)
      const nowhere = await room.comms.open('nowhere')
      await until('the refusal', () => !nowhere.open)
      expect(room.comms.all.size).toBe(0)
    } finally {
      await client.close()
    }
  }))

test('comms survive a daemon that is killed: state, updates on their way both ways, each once', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    const first = await startDaemon(home)
    const client = await connect({ env: home.env, waitMs: 60_000 })
    try {
      const room = await client.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      await ran(room, WIDGET)
      await ran(room, `m = Model({'value': 0, 'big': 'x' * 100000}, comm_id='w')`)
      const comm = await opened(room, 'w')
      expect(comm.omitted).toEqual(['big'])
      // A cell keeps the kernel from taking messages; they are durable all the same.
      const slow = await room.execute({
        code: `import time
for i in range(30):
    m.set(step=i); time.sleep(0.1)`,
      })
      await until('it runs', () => comm.state.step !== undefined)
      for (let i = 1; i <= 5; i++) await comm.set({ value: i })
      await first.kill9()
      const during = comm.set({ value: 6 })
      await startDaemon(home)
      await within('the message made while nobody was there', during)
      expect((await within('the end', slow.done)).status).toBe('done')
      await until('the last step', () => comm.state.step === 29)
      expect(comm.state).toMatchObject({ value: 6, step: 29 })
      expect(await ran(room, `print([d['state'] for d in m.got], m.state['value'])`)).toBe(
        `[{'value': 1}, {'value': 2}, {'value': 3}, {'value': 4}, {'value': 5}, {'value': 6}] 6\n`,
      )
      const other = await client.openRoom({ notebook_id: room.id })
      const again = await opened(other, 'w')
      expect(again.state).toMatchObject({ value: 6, step: 29 })
      expect(await again.load()).toMatchObject({ big: 'x'.repeat(100_000) })
    } finally {
      await client.close()
    }
  }))

test('an echo of an older value takes no newer one back, and a value that the kernel corrects counts', (context) =>
  withHome(async (home) => {
    needs(context, 'Python kernel')
    await startDaemon(home)
    const client = await connect({ env: home.env })
    try {
      const room = await client.openRoom({ create: { kernel: 'python3', working_dir: home.work } })
      await ran(room, WIDGET)
      await ran(room, `m = Model({'value': 0}, echo=True, comm_id='w')`)
      const comm = await opened(room, 'w')
      const values: unknown[] = []
      comm.on('update', ({ state }) => values.push(state.value))
      await Promise.all([1, 2, 3, 4, 5].map((value) => comm.set({ value })))
      expect(await ran(room, `print(m.state['value'])`)).toBe('5\n')
      expect(values).toEqual([1, 2, 3, 4, 5])
      await comm.set({ value: 1000 })
      await until('the correction', () => comm.state.value === 100)
      expect(values).toEqual([1, 2, 3, 4, 5, 1000, 100])
    } finally {
      await client.close()
    }
  }))
