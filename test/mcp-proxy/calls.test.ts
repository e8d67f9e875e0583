/** Calls through one child and from child to child: answered once, with effects that happen once. */
import { expect, test } from 'vitest'
import { until } from '../support/until.ts'
import { TOOLS, withBench } from './support/bench.ts'

test('initialize and tools/list are answered without a child', () =>
  withBench(async (bench) => {
    const id = bench.request('initialize', {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: {},
    })
    expect(bench.answers(id)[0]?.result).toEqual({
      protocolVersion: '2025-06-18',
      capabilities: { resources: { subscribe: true }, tools: { listChanged: true } },
      serverInfo: { name: 'roomd', title: 'roomd 1.0.0', version: '1.0.0' },
      instructions: 'read this first',
    })
    const list = bench.request('tools/list')
    const tools = bench.answers(list)[0]?.result?.tools as Array<{ name: string }>
    expect(tools.map((tool) => tool.name)).toEqual([...TOOLS.map((tool) => tool.name), 'reconnect'])
    expect(bench.starts).toEqual([])
  }))

test("the client's initialize is replayed to every child", () =>
  withBench(async (bench) => {
    await bench.hello({ capabilities: { roots: {} }, clientInfo: { name: 'me', version: '3' }, extra: 1 })
    await bench.call('look')
    await bench.call('reconnect')
    const hellos = bench.heard.filter((message) => message.method === 'initialize')
    expect(hellos).toHaveLength(2)
    for (const hello of hellos) {
      expect(hello.params).toEqual({
        protocolVersion: '2025-06-18',
        capabilities: { roots: {} },
        clientInfo: { name: 'me', version: '3' },
        extra: 1,
      })
    }
  }))

test('each call gets a mutation base of its own and the lowest base that is open', () =>
  withBench(async (bench) => {
    await bench.hello()
    const held = bench.tool('work', { hold: 'go' })
    const second = await bench.call('look')
    expect(second.structuredContent).toMatchObject({ base: 128, settled: 64 })
    bench.release('go')
    expect((await bench.result(held)).structuredContent).toMatchObject({ base: 64, settled: 64 })
    expect((await bench.call('work')).structuredContent).toMatchObject({ base: 192, settled: 192 })
  }))

test('a call that is sent again has the same mutation base, and bases go on growing', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('work')
    const result = await bench.call('work', { die: 'effect', once: 'dead' })
    expect(result.structuredContent).toMatchObject({ base: 128, done: false })
    const calls = await bench.heardCalls('work', 3)
    const bases = calls.map((call) => call.params?._meta)
    expect(bases).toMatchObject([64, 128, 128].map((base) => ({ 'roomd/mutation': base })))
    expect((await bench.call('work')).structuredContent).toMatchObject({ base: 192, settled: 192 })
  }))

test('reads other than tools are sent again too', () =>
  withBench(async (bench) => {
    await bench.hello()
    const dying = bench.tool('work', { die: 'effect', once: 'dead' })
    const read = bench.request('resources/read', { uri: 'roomd://notebooks' })
    expect(await bench.result(read)).toEqual({ contents: [] })
    await bench.result(dying)
  }))

test('progress goes on across a restart and never goes back', () =>
  withBench(async (bench) => {
    await bench.hello()
    const id = bench.tool('work', { progress: 3, die: 'progress', once: 'dead' }, { progressToken: 'tok' })
    await bench.result(id)
    const seen = bench.sent.filter((message) => message.method === 'notifications/progress')
    expect(seen.map((message) => message.params?.progress)).toEqual([1, 2, 3, 4, 5, 6])
    expect(seen.every((message) => message.params?.progressToken === 'tok')).toBe(true)
  }))

test('a cancellation reaches the child under the id it knows', () =>
  withBench(async (bench) => {
    await bench.hello()
    const id = bench.tool('work', { hold: 'never' })
    const [call] = await bench.heardCalls('work', 1)
    bench.notify('notifications/cancelled', { requestId: id, reason: 'enough' })
    const cancelled = await until('the cancellation', () =>
      bench.heard.find((message) => message.method === 'notifications/cancelled'),
    )
    expect(cancelled.params).toEqual({ requestId: call?.id, reason: 'enough' })
    // The child may still be ending what it started: its ids are not settled yet.
    expect((await bench.call('look')).structuredContent).toMatchObject({ base: 128, settled: 64 })
    expect(bench.answers(id)).toEqual([])
  }))

test('a call that was cancelled during a restart is not sent again', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.call('look')
    const dying = bench.tool('work', { die: 'effect', once: 'dead' })
    const held = bench.tool('work', { hold: 'never' })
    bench.proxy.supervisor.ready?.kill()
    bench.notify('notifications/cancelled', { requestId: held })
    await bench.result(dying)
    await bench.call('look')
    const late = bench.heard.filter((message) => message.method === 'tools/call').slice(-2)
    for (const call of late) expect(call.params?.arguments).not.toHaveProperty('hold')
    expect(bench.answers(held)).toEqual([])
  }))

test('requests of the child reach the client and its answers the child', () =>
  withBench(async (bench) => {
    await bench.hello()
    const id = bench.tool('work', { ask: 'elicitation/create' })
    const asked = await until('the question', () => bench.sent.find((m) => m.method === 'elicitation/create'))
    bench.notify('notifications/progress', { progressToken: asked.id as string, progress: 1 })
    bench.raw(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: { action: 'accept' } }))
    expect((await bench.result(id)).structuredContent).toEqual({ answer: { action: 'accept' } })
    const progress = bench.heard.find((message) => message.method === 'notifications/progress')
    expect(progress?.params).toMatchObject({ progressToken: 0, progress: 1 })
  }))

test('a question whose asker died is withdrawn, and a late answer reaches nobody', () =>
  withBench(async (bench) => {
    await bench.hello()
    const id = bench.tool('work', { ask: 'roots/list' })
    const asked = await until('the question', () => bench.sent.find((m) => m.method === 'roots/list'))
    bench.proxy.supervisor.ready?.kill()
    const withdrawn = await until('the withdrawal', () =>
      bench.sent.find((m) => m.method === 'notifications/cancelled'),
    )
    expect(withdrawn.params?.requestId).toBe(asked.id)
    const again = await until('the question of the next child', () =>
      bench.sent.filter((m) => m.method === 'roots/list').at(1),
    )
    expect(again.id).not.toBe(asked.id)
    bench.raw(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: { roots: ['late'] } }))
    bench.raw(JSON.stringify({ jsonrpc: '2.0', id: again.id, result: { roots: [] } }))
    expect((await bench.result(id)).structuredContent).toEqual({ answer: { roots: [] } })
  }))

test('log level and subscriptions are told to a new child', () =>
  withBench(async (bench) => {
    await bench.hello()
    await bench.result(bench.request('logging/setLevel', { level: 'debug' }))
    await bench.result(bench.request('resources/subscribe', { uri: 'roomd://a' }))
    await bench.result(bench.request('resources/subscribe', { uri: 'roomd://b' }))
    await bench.result(bench.request('resources/unsubscribe', { uri: 'roomd://a' }))
    const before = bench.heard.length
    await bench.call('reconnect')
    await until('the subscription', () =>
      bench.heard.slice(before).some((m) => m.method === 'resources/subscribe'),
    )
    const told = bench.heard.slice(before).map(({ method, params }) => ({ method, params }))
    expect(told).toContainEqual({ method: 'logging/setLevel', params: { level: 'debug' } })
    expect(told).toContainEqual({ method: 'resources/subscribe', params: { uri: 'roomd://b' } })
    expect(told).not.toContainEqual({ method: 'resources/subscribe', params: { uri: 'roomd://a' } })
  }))

test('an id that is in use is refused without touching the call that has it', () =>
  withBench(async (bench) => {
    await bench.hello()
    bench.raw(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 'x',
        method: 'tools/call',
        params: { name: 'work', arguments: { hold: 'go' } },
      }),
    )
    bench.raw(JSON.stringify({ jsonrpc: '2.0', id: 'x', method: 'tools/call', params: { name: 'look' } }))
    expect(bench.answers('x')[0]?.error).toMatchObject({ code: -32600 })
    bench.release('go')
    await until('both answers', () => bench.answers('x').length === 2)
    expect(bench.answers('x')[1]?.result).toBeDefined()
  }))

test('an answer that is too long is told as such, and its child lives on', () =>
  withBench(async (bench) => {
    await bench.hello()
    const result = await bench.call('look', { bytes: 33 * 1024 * 1024 })
    expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'too_large' } } })
    await bench.call('look')
    expect(bench.starts).toHaveLength(1)
  }))

test('a child whose long line answers nobody is ended, and its calls are sent again', () =>
  withBench(async (bench) => {
    await bench.hello()
    const result = await bench.call('work', { bytes: 33 * 1024 * 1024, nameless: true, once: 'huge' })
    expect(result.structuredContent).toMatchObject({ base: 64, done: false })
    expect(bench.effects).toEqual([64])
    expect(bench.starts).toHaveLength(2)
  }))

test('a build without its list asks the child', () =>
  withBench(
    async (bench) => {
      await bench.hello()
      const { tools } = await bench.result(bench.request('tools/list'))
      expect((tools as Array<{ name: string }>).map((tool) => tool.name)).toEqual([
        ...TOOLS.map((tool) => tool.name),
        'reconnect',
      ])
    },
    {},
    { advertised: null },
  ))
