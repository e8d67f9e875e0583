import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KernelClient, outputsOf, streamText } from './kernel-client.ts'

let kernel: KernelClient
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'jsk-err-'))
  writeFileSync(join(folder, 'lib.cjs'), 'exports.call = (f) => f()\n')
  kernel = await KernelClient.start({ cwd: folder })
})
afterAll(async () => {
  await kernel.dispose()
  rmSync(folder, { recursive: true, force: true })
})

async function failure(
  code: string,
): Promise<{ ename: string; evalue: string; trace: string; place: string }> {
  const { reply, messages } = await kernel.execute(code)
  expect(reply.status).toBe('error')
  const error = messages.find((m) => m.type === 'error')?.content
  expect(error).toEqual({ ename: reply.ename, evalue: reply.evalue, traceback: reply.traceback })
  const lines = reply.traceback as string[]
  const place = /^Cell In\[\d+\]:(\d+:\d+)$/.exec(lines[0] ?? '')?.[1] ?? ''
  return { ename: String(reply.ename), evalue: String(reply.evalue), trace: lines.join('\n'), place }
}

describe('places are those of the cell', () => {
  test.each([
    ['plain', 'const a = 1\n  null.x', '2:8'],
    ['thrown on line 1', 'throw new Error("x")', '1:7'],
    ['after a let without value on the same line', 'let u; null.x', '1:13'],
    ['beside await', 'const b = await 1\nfunction f() {\n  null.x\n}\nf()', '3:8'],
    ['beside await, first line', 'await 1; null.x', '1:15'],
    ['in an import cell', 'import fs from "node:fs"\nfs.nope()', '2:4'],
    [
      'in TypeScript',
      'interface A { x: number }\n\nconst t: A = { x: 1 }\nfunction g(y: A): void {\n  (null as any).q\n}\ng(t)',
      '5:17',
    ],
    ['in TypeScript with await', 'type Q = string\nconst w: Q = await "a"\nnull.zz', '3:6'],
    ['in an object literal', '{ a: null.b }', '1:11'],
    ['in a nested await', 'const h = async () => { await 0; null.x }; await h()', '1:39'],
    ['a syntax error', 'const ok = 1\nlet = = 3', '2:7'],
    ['a syntax error on line 1', 'foo(', '1:5'],
    ['a syntax error in TypeScript', 'let x: number = 1\nlet y: = 2', '2:8'],
  ])('%s', async (_name, code, place) => {
    expect((await failure(code)).place).toBe(place)
  })

  test('later cells and libraries', async () => {
    await kernel.execute('function thrower() {\n  throw new TypeError("deep")\n}')
    const { trace, ename } = await failure('const lib = require("./lib.cjs")\nlib.call(thrower)')
    expect(ename).toBe('TypeError')
    expect(trace).toMatch(/at thrower \(Cell In\[\d+\]:2:9\)/)
    expect(trace).toMatch(/at .*lib\.cjs:1:23/)
    expect(trace).toMatch(/at Cell In\[\d+\]:2:5$/)
    expect(trace).not.toMatch(/kernel-guard|javascript-kernel/)
  })

  test('the stack that user code reads', async () => {
    expect(
      await kernel.value('await 0; const err5 = new Error("m");\n/Cell In\\[\\d+\\]:1:23/.test(err5.stack)'),
    ).toBe('true')
  })
})

test('the cause, further properties and aggregated errors are shown', async () => {
  const { trace } = await failure(
    'throw Object.assign(new Error("outer", { cause: new Error("inner") }), { code: "E1" })',
  )
  expect(trace).toContain("code: 'E1'")
  expect(trace).toContain('[cause]: Error: inner')
})

test.each([
  ['throw "text"', 'Uncaught', 'text'],
  ['throw { a: 1 }', 'Uncaught', '{ a: 1 }'],
  ['throw undefined', 'Uncaught', 'undefined'],
  ['await Promise.reject(new RangeError("r"))', 'RangeError', 'r'],
  ['Promise.reject(new RangeError("r"))', 'RangeError', 'r'],
  ['function deep() { deep() }; deep()', 'RangeError', 'Maximum call stack size exceeded'],
  ['throw new Proxy({}, { get() { throw 1 } })', 'Uncaught', '{}'],
  ['({ get [Symbol.toStringTag]() { throw new Error("evil") } })', 'Error', 'evil'],
  [
    '({ [Symbol.for("nodejs.util.inspect.custom")]() { throw new TypeError("no show") } })',
    'TypeError',
    'no show',
  ],
  [
    'let e9 = new Error("x"); Object.defineProperty(e9, "message", { get() { throw 1 } }); throw e9',
    'Error',
    expect.any(String),
  ],
])('%s', async (code, ename, evalue) => {
  const found = await failure(code)
  expect(found.ename).toBe(ename)
  expect(found.evalue).toEqual(evalue)
})

test('uncaught errors and rejections after the cell go to its stderr and leave the kernel alive', async () => {
  const timer = kernel.submit('setTimeout(() => {\n  throw new Error("late boom")\n}, 5); 1')
  await kernel.finished(timer)
  await kernel.printed(timer, 'late boom')
  const rejection = kernel.submit('setTimeout(() => Promise.reject(new Error("late no")), 5); 1')
  await kernel.finished(rejection)
  await kernel.printed(rejection, 'late no')
  const text = streamText(
    kernel.log.filter((m) => m.parentId === timer),
    'stderr',
  )
  expect(text).toMatch(/Cell In\[\d+\]:2:9/)
  const own = await kernel.execute('Promise.reject(new Error("now no")); await 1; 2')
  expect(own.reply.status).toBe('ok')
  expect(streamText(own.messages, 'stderr')).toContain('now no')
  expect(await kernel.value('1')).toBe('1')
})

test('an error aborts what is queued behind it, unless stop_on_error is false', async () => {
  // Fails only when the others are there.
  const first = kernel.submit('input(); throw 1', { allow_stdin: true })
  const ids = [first, ...['globalThis.x1 = 1', 'globalThis.x2 = 2'].map((code) => kernel.submit(code))]
  const info = kernel.send('shell', 'kernel_info_request', {})
  await kernel.until(() => kernel.log.some((m) => m.type === 'input_request'))
  kernel.send('stdin', 'input_reply', { status: 'ok', value: '' })
  const runs = await Promise.all([...ids, info].map((id) => kernel.finished(id)))
  expect(runs.map((run) => run.reply.status)).toEqual(['error', 'aborted', 'aborted', 'ok'])
  expect(runs[1]?.messages.map((m) => m.content.execution_state)).toEqual(['busy', 'idle'])
  expect(await kernel.value('typeof x1')).toBe("'undefined'")
  const going = [kernel.submit('throw 1', { stop_on_error: false }), kernel.submit('5')]
  expect((await Promise.all(going.map((id) => kernel.finished(id)))).map((run) => run.reply.status)).toEqual([
    'error',
    'ok',
  ])
})

test('silent errors are still told', async () => {
  expect(outputsOf(await kernel.execute('throw new Error("s")', { silent: true }), 'error')).toHaveLength(1)
})
