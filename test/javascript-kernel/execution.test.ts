import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KernelClient, outputsOf, resultText, streamText } from './kernel-client.ts'

let kernel: KernelClient
beforeAll(async () => {
  kernel = await KernelClient.start()
})
afterAll(() => kernel.dispose())

describe('results', () => {
  test.each([
    ['1 + 1', '2'],
    ["'text'", "'text'"],
    ['const a = 5; a * 2', '10'],
    ['let q = 1', undefined],
    ['undefined', undefined],
    ['null', 'null'],
    ['if (true) { 5 }', undefined],
    ['{ a: 1 }', '{ a: 1 }'],
    ['await Promise.resolve(7)', '7'],
    ['Promise.resolve(8)', '8'],
    ['[1, 2, 3].map((x) => x * 2);', '[ 2, 4, 6 ]'],
    ['await 1; [4][0] // comment', '4'],
    ['// only a comment', undefined],
    ['', undefined],
    ['#!/usr/bin/env node\n3', '3'],
    ['({}).toString.call(await 5)', "'[object Number]'"],
  ])('%s', async (code, expected) => {
    expect(await kernel.value(code)).toBe(expected)
  })

  test('the order is busy, input, outputs, result, idle', async () => {
    const run = await kernel.execute('console.log("x"); 5')
    expect(run.messages.map((m) => m.type)).toEqual([
      'status',
      'execute_input',
      'stream',
      'execute_result',
      'status',
    ])
    expect(run.messages[1]?.content.execution_count).toBe(run.reply.execution_count)
  })

  test('silent runs show no input and no result and do not count', async () => {
    const before = (await kernel.execute('1')).reply.execution_count as number
    const silent = await kernel.execute('globalThis.s = 1; s', { silent: true })
    expect(silent.messages.map((m) => m.type)).toEqual(['status', 'status'])
    expect((await kernel.execute('s')).reply.execution_count).toBe(before + 1)
  })

  test('user expressions are answered one by one', async () => {
    const run = await kernel.execute('const ue = 20', { user_expressions: { good: 'ue + 1', bad: 'nope' } })
    const expressions = run.reply.user_expressions as Record<string, Record<string, unknown>>
    expect(expressions.good).toMatchObject({ status: 'ok', data: { 'text/plain': '21' } })
    expect(expressions.bad).toMatchObject({ status: 'error', ename: 'ReferenceError' })
  })
})

describe('streams', () => {
  test('console and process streams are captured on the right stream and in order', async () => {
    const run = await kernel.execute(
      'console.log("a"); console.info("b"); console.debug("c"); process.stdout.write("d\\n"); console.dir({x: 1})',
    )
    expect(streamText(run.messages, 'stdout')).toBe('a\nb\nc\nd\n{ x: 1 }\n')
    const errors = await kernel.execute(
      'console.warn("w"); console.error("e"); process.stderr.write(Buffer.from("é"))',
    )
    expect(streamText(errors.messages, 'stderr')).toBe('w\ne\né')
    expect(streamText((await kernel.execute('console.table([{a: 1}])')).messages)).toContain('│')
  })

  test('50,000 lines arrive complete and in order, before the reply ends the run', async () => {
    const run = await kernel.execute('for (let i = 0; i < 50000; i++) console.log("line " + i)')
    const expected = Array.from({ length: 50000 }, (_, i) => `line ${i}\n`).join('')
    expect(streamText(run.messages) === expected).toBe(true)
  })

  test('a write larger than the shared memory arrives whole', async () => {
    const run = await kernel.execute('process.stdout.write("añ😀".repeat(1_000_000))')
    expect(streamText(run.messages) === 'añ😀'.repeat(1_000_000)).toBe(true)
    const result = await kernel.execute(
      '"z".repeat(5_000_000).length; display({"text/plain": "y".repeat(3_000_000)})',
    )
    const data = outputsOf(result, 'display_data')[0]?.data as Record<string, string>
    expect(data['text/plain']?.length).toBe(3_000_000)
  })

  test('a loop that never yields is heard', async () => {
    const id = kernel.submit('console.log("first"); console.log("second"); while (true) {}')
    await kernel.printed(id, 'second')
    kernel.process.kill('SIGINT')
    expect((await kernel.finished(id)).reply.ename).toBe('KeyboardInterrupt')
  })

  test('output after the end of a cell belongs to the cell that started it', async () => {
    const id = kernel.submit('setTimeout(() => { console.log("late"); globalThis.go?.() }, 20); 1')
    await kernel.finished(id)
    const other = await kernel.execute(
      'await new Promise((resolve) => { globalThis.go = resolve }); console.log("mine")',
    )
    expect(streamText(other.messages)).toBe('mine\n')
    await kernel.printed(id, 'late')
  })
})

test('TypeScript runs', async () => {
  expect(await kernel.value('interface P { x: number }\nconst p: P = { x: 4 }; p.x as number')).toBe('4')
  expect(await kernel.value('enum Color { Red = 3 }\nColor.Red')).toBe('3')
  expect(await kernel.value('const ident = <T,>(v: T): T => v; ident<number>(3)')).toBe('3')
  expect(await kernel.value('ident<number>(9)')).toBe('9')
  expect(
    await kernel.value(
      'import type { Stats } from "node:fs"\nimport { statSync } from "node:fs"\nlet st: Stats = statSync("."); 1',
    ),
  ).toBe('1')
  expect(await kernel.value('typeof statSync')).toBe("'function'")
  expect(resultText(await kernel.execute('await (async (v: number) => v + 1)(1)'))).toBe('2')
})
