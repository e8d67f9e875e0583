import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { KernelClient, resultText, streamText } from './kernel-client.ts'

let kernel: KernelClient
beforeAll(async () => {
  kernel = await KernelClient.start()
})
afterAll(() => kernel.dispose())
// A kernel that hangs would take every later test with it.
afterEach(async ({ task }) => {
  if (task.result?.state !== 'fail') return
  await kernel.dispose()
  kernel = await KernelClient.start()
})

const sleep = 'await (await import("node:timers/promises")).setTimeout(5)'

const loops: [string, string][] = [
  ['a loop', 'let kept = 41; console.log("go"); while (true) {}'],
  ['a loop that prints', 'let kept = 41; console.log("go"); while (true) console.log("x")'],
  ['a loop after await', 'let kept = 41; await 0; console.log("go"); while (true) {}'],
  ['a loop after a timer', `let kept = 41; ${sleep}; console.log("go"); while (true) {}`],
  [
    'a loop in an async function',
    `let kept = 41; async function f() { ${sleep}; console.log("go"); while (true) {} }\nawait f()`,
  ],
  [
    'a loop in a timer that the cell awaits',
    'let kept = 41; await new Promise(() => setTimeout(() => { console.log("go"); while (true) {} }))',
  ],
  [
    'a loop after I/O',
    'let kept = 41; await (await import("node:fs/promises")).readdir("."); console.log("go"); while (true) {}',
  ],
  [
    'a loop inside an async context',
    'let kept = 41; new (require("async_hooks").AsyncLocalStorage)().run(1, () => { console.log("go"); while (true) {} })',
  ],
  [
    'an endless chain of promises',
    'let kept = 41; console.log("go"); (function again() { Promise.resolve().then(again) })(); await new Promise(() => {})',
  ],
  [
    'a loop with an endless chain of promises waiting',
    'let kept = 41; (function again() { Promise.resolve().then(again) })(); console.log("go"); while (true) {}',
  ],
  ['an await for ever', 'let kept = 41; console.log("go"); await new Promise(() => {})'],
  ['a promise as the result', 'let kept = 41; console.log("go"); new Promise(() => {})'],
  [
    'for await',
    'let kept = 41; console.log("go"); for await (const x of { async *[Symbol.asyncIterator]() { await new Promise(() => {}) } }) {}',
  ],
  [
    'a catastrophic regular expression',
    'let kept = 41; console.log("go"); /^(a+)+$/.test("a".repeat(40) + "b")',
  ],
  [
    'a sleep by Atomics.wait',
    'let kept = 41; console.log("go"); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  ],
  [
    'showing a result',
    'let kept = 41; ({ [Symbol.for("nodejs.util.inspect.custom")]() { console.log("go"); while (true) {} } })',
  ],
]

describe.each(['signal', 'message'])('interrupt by %s', (way) => {
  test.each(loops)('ends %s and keeps the variables', async (_name, code) => {
    const id = kernel.submit(code)
    await kernel.printed(id, 'go')
    if (way === 'signal') kernel.process.kill('SIGINT')
    else expect(await kernel.ask('interrupt_request', {}, 'control')).toEqual({ status: 'ok' })
    const run = await kernel.finished(id)
    expect(run.reply).toMatchObject({ status: 'error', ename: 'KeyboardInterrupt' })
    expect(run.messages.filter((m) => m.type === 'error')).toHaveLength(1)
    expect(await kernel.value('kept')).toBe('41')
  })
})

test('what an interrupted cell awaits in functions does not go on', async () => {
  const id = kernel.submit(`
    let ticks = 0
    async function poll() { for (;;) { await new Promise((r) => setTimeout(r, 5)); ticks += 1; if (ticks === 2) console.log('go') } }
    async function stubborn() { for (;;) { try { await new Promise((r) => setTimeout(r, 1)) } catch {} ; globalThis.stubbornTicks = (globalThis.stubbornTicks ?? 0) + 1 } }
    await Promise.all([poll(), stubborn()])
  `)
  await kernel.printed(id, 'go')
  kernel.process.kill('SIGINT')
  await kernel.finished(id)
  const before = await kernel.value(
    'const at = [ticks, stubbornTicks]; await new Promise((r) => setTimeout(r, 60)); [ticks - at[0], stubbornTicks - at[1] <= 1]',
  )
  expect(before).toBe('[ 0, true ]')
})

test('finally blocks run, and an interrupt can be caught', async () => {
  const id = kernel.submit(
    'try { setTimeout(() => console.log("go")); await new Promise(() => {}) } finally { console.log("cleaned") }',
  )
  await kernel.printed(id, 'go')
  kernel.process.kill('SIGINT')
  expect(streamText((await kernel.finished(id)).messages)).toBe('go\ncleaned\n')
  const caught = kernel.submit(
    'let r; try { setTimeout(() => console.log("go")); await new Promise(() => {}) } catch (e) { r = e.name }\nr',
  )
  await kernel.printed(caught, 'go')
  kernel.process.kill('SIGINT')
  expect((await kernel.finished(caught)).reply.status).toBe('ok')
})

test('an idle kernel ignores interrupts, and the next cell is not hit', async () => {
  for (let i = 0; i < 5; i += 1) await kernel.ask('interrupt_request', {}, 'control')
  expect(await kernel.value('await new Promise((r) => setTimeout(r, 20, "whole"))')).toBe("'whole'")
})

test('a loop in a timer of a cell that has ended is ended too', async () => {
  const id = kernel.submit('setTimeout(() => { console.log("stuck"); while (true) {} }, 10); 1')
  await kernel.finished(id)
  await kernel.printed(id, 'stuck')
  kernel.process.kill('SIGINT')
  expect(await kernel.value('6 * 7')).toBe('42')
})

test('an interrupt aborts what was queued behind it', async () => {
  const first = kernel.submit('console.log("go"); while (true) {}')
  const second = kernel.submit('globalThis.ran = true')
  await kernel.printed(first, 'go')
  await kernel.ask('interrupt_request', {}, 'control')
  expect((await kernel.finished(first)).reply.ename).toBe('KeyboardInterrupt')
  expect((await kernel.finished(second)).reply.status).toBe('aborted')
  expect(await kernel.value('typeof ran')).toBe("'undefined'")
})

test('bursts of interrupts, at any moment of a cell, never end the kernel or hang it', async () => {
  for (let round = 0; round < 40; round += 1) {
    const code = round % 2 === 0 ? 'while (true) {}' : 'for (;;) await new Promise((r) => setTimeout(r, 1))'
    const id = kernel.submit(`console.log("go"); ${code}`)
    let done = false
    const finished = kernel.finished(id).then(() => {
      done = true
    })
    // A late signal of the round before may end the cell before it prints.
    if (round % 3 === 0) await Promise.race([kernel.printed(id, 'go'), finished])
    // An interrupt that comes before the cell starts is for nobody, so it is repeated, as an impatient person would.
    while (!done) {
      for (let i = 0; i < 3; i += 1) kernel.process.kill('SIGINT')
      await Promise.race([finished, new Promise((resolve) => setTimeout(resolve, round % 7))])
    }
    await finished
  }
  expect(kernel.process.exitCode ?? kernel.process.signalCode).toBeNull()
  // Signals that are still on their way may hit one more cell.
  let last = await kernel.execute('kept * 2')
  while (last.reply.status !== 'ok') last = await kernel.execute('kept * 2')
  expect(resultText(last)).toBe('82')
})

test('an error whose text never ends can be interrupted', async () => {
  const id = kernel.submit(
    'throw Object.assign(new Error("x"), { get y() { return 1 }, [Symbol.for("nodejs.util.inspect.custom")]() { console.log("go"); while (true) {} } })',
  )
  await kernel.printed(id, 'go')
  kernel.process.kill('SIGINT')
  expect((await kernel.finished(id)).reply.status).toBe('error')
  expect(await kernel.value('1')).toBe('1')
})
