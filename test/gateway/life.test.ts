import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { executeRequest, Listener } from '../kernels/harness.ts'
import { filesHolding } from '../support/files.ts'
import { needs } from '../support/machine.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { withGateway } from './bench.ts'

test('a kernel at a gateway is listed, runs, keeps variables, is interrupted, asks for input, and is ended there', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ provider, start, server, home }) => {
    // A list does not wait for a gateway that takes its time.
    const spec = await until('the gateway to be listed', async () =>
      (await provider.specs()).find((each) => each.name === 'far/python3'),
    )
    expect(spec).toMatchObject({ usable: true, source: 'gateway', language: 'python' })

    const kernel = await start('far/python3')
    expect(kernel).toMatchObject({ name: 'far/python3', language: 'python' })
    expect(kernel.summary()).toMatchObject({ pid: null })
    const listener = new Listener(kernel)
    await listener.run('kept = 6')
    expect(listener.result(await listener.run('kept * 7'))).toBe('42')

    const failing = await listener.run('1/0')
    expect((await listener.settled(failing)).reply).toMatchObject({ ename: 'ZeroDivisionError' })

    const endless = await listener.begin('print("up", flush=True)\nwhile True: pass')
    await until('the cell to run', () => listener.text(endless).includes('up'))
    await kernel.interrupt()
    expect((await listener.settled(endless)).reply).toMatchObject({ ename: 'KeyboardInterrupt' })
    expect(listener.result(await listener.run('kept'))).toBe('6')

    const asking = 'asking'
    const request = executeRequest('input("who? ")', asking)
    await kernel.send({ ...request, content: { ...request.content, allow_stdin: true } })
    const asked = await listener.event('message', ({ message }) => message.msg_type === 'input_request')
    expect(asked.message.content).toMatchObject({ prompt: 'who? ' })
    await kernel.send({
      requestId: 'answer',
      channel: 'stdin',
      msgType: 'input_reply',
      content: { value: 'me' },
      parentId: asked.message.msg_id,
    })
    await listener.settled(asking)
    expect(listener.result(asking)).toBe("'me'")

    expect(await kernel.ask('complete_request', { code: 'kep', cursor_pos: 3 })).toMatchObject({
      matches: ['kept'],
    })

    // The token is on no command line and in no file.
    const { host_pid: host } = kernel.summary()
    expect(readFileSync(`/proc/${host}/cmdline`, 'utf8')).not.toContain(server.token)
    expect(filesHolding(home.path, server.token)).toEqual([])

    await kernel.shutdown()
    expect(await server.kernels()).toEqual([])
    await gone(host ?? 0)
    expect(provider.running()).toEqual([])
  })
})

test('comm messages with buffers pass in both directions, also through a server that knows the old form only', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(
    async ({ start }) => {
      const kernel = await start('far/python3')
      const listener = new Listener(kernel)
      await listener.run(
        [
          'from ipykernel.comm import Comm',
          'def opened(comm, message):',
          '  comm.on_msg(lambda m: comm.send({"got": m["content"]["data"]}, buffers=[bytes(m["buffers"][0]) * 2]))',
          'get_ipython().kernel.comm_manager.register_target("echo", opened)',
        ].join('\n'),
      )
      await kernel.send({
        requestId: 'open',
        channel: 'shell',
        msgType: 'comm_open',
        content: { comm_id: 'one', target_name: 'echo', data: {} },
      })
      await kernel.send({
        requestId: 'say',
        channel: 'shell',
        msgType: 'comm_msg',
        content: { comm_id: 'one', data: { a: 1 } },
        buffers: [new Uint8Array([1, 2, 255])],
      })
      const said = await listener.event('message', ({ message }) => message.msg_type === 'comm_msg')
      expect(said.message.content).toMatchObject({ comm_id: 'one', data: { got: { a: 1 } } })
      expect([...(said.message.buffers[0] ?? [])]).toEqual([1, 2, 255, 1, 2, 255])
      const umlauts = await listener.run('print("grüße 🎈"); 1')
      expect(listener.text(umlauts)).toBe('grüße 🎈\n')
    },
    ['--ServerApp.kernel_ws_protocol=', '--ServerApp.limit_rate=False'],
  )
})

test('30 MB of output arrive whole and in order', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(async ({ start }) => {
    const kernel = await start('far/python3')
    const listener = new Listener(kernel)
    const lines = 300_000
    const run = await listener.begin(`for i in range(${lines}): print(f"{i:08d} " + "x" * 90)`)
    await listener.settled(run, 90_000)
    const text = listener.text(run)
    expect(text.length).toBe(lines * 100)
    let next = 0
    for (const line of text.trimEnd().split('\n')) if (Number(line.slice(0, 8)) === next) next++
    expect(next).toBe(lines)
    expect(listener.events.filter((event) => event.kind === 'gap')).toEqual([])
  })
})

test('a server that limits the rate of output says so, and it is told as a gap with its size', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withGateway(
    async ({ start }) => {
      const kernel = await start('far/python3')
      const listener = new Listener(kernel)
      const run = await listener.run('for i in range(60): print(i, "y" * 100_000, flush=True)')
      const gap = await listener.event('gap')
      expect(gap.reason).toMatch(/limits the rate .* up to \d+ messages/)
      expect((await listener.settled(run)).reply).toMatchObject({ status: 'ok' })
      expect(gap.seq).toBeLessThan((await listener.settled(run)).seq)
    },
    ['--ServerApp.iopub_data_rate_limit=1000000'],
  )
})
