import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { javascriptKernelspec } from '../../protocol/javascript-kernelspec.ts'
import { programFile } from '../../protocol/programs.ts'
import { until } from '../support/until.ts'
import { KernelClient, outputsOf, streamText } from './kernel-client.ts'

describe.each(['ipc', 'tcp'] as const)('over %s', (transport) => {
  let kernel: KernelClient
  beforeAll(async () => {
    kernel = await KernelClient.start({ transport })
  })
  afterAll(() => kernel.dispose())

  test('kernel_info, on shell and on control', async () => {
    for (const channel of ['shell', 'control'] as const) {
      expect(await kernel.ask('kernel_info_request', {}, channel)).toMatchObject({
        status: 'ok',
        protocol_version: '5.4',
        language_info: { name: 'javascript', file_extension: '.js' },
        help_links: expect.arrayContaining([{ text: expect.any(String), url: expect.any(String) }]),
      })
    }
  })

  test('the heartbeat echoes, while a cell computes too', async () => {
    const socket = kernel.heartbeat()
    const id = kernel.submit('console.log("go"); while (true) {}')
    await kernel.printed(id, 'go')
    await socket.send('ping')
    expect(String((await socket.receive())[0])).toBe('ping')
    socket.close()
    await kernel.ask('interrupt_request', {}, 'control')
    await kernel.finished(id)
  })

  test('a message with a wrong signature is not obeyed', async () => {
    kernel.send('shell', 'execute_request', { code: 'globalThis.evil = 1' }, true)
    expect(await kernel.value('typeof evil')).toBe("'undefined'")
    await until('what it says of that', () => kernel.stderr.includes('wrong signature'))
  })

  test('comms: none are known, and an unknown target is closed', async () => {
    expect(await kernel.ask('comm_info_request', {})).toEqual({ status: 'ok', comms: {} })
    const id = kernel.send('shell', 'comm_open', { comm_id: 'c1', target_name: 'none', data: {} })
    await kernel.until(() =>
      kernel.log.some((m) => m.parentId === id && m.content.execution_state === 'idle'),
    )
    expect(kernel.log.find((m) => m.parentId === id && m.type === 'comm_close')?.content.comm_id).toBe('c1')
  })

  test('unknown requests are ignored between busy and idle', async () => {
    const id = kernel.send('shell', 'no_such_request', {})
    await kernel.until(() =>
      kernel.log.some((m) => m.parentId === id && m.content.execution_state === 'idle'),
    )
    expect(await kernel.value('3')).toBe('3')
  })
})

describe('completion', () => {
  let kernel: KernelClient
  beforeAll(async () => {
    kernel = await KernelClient.start()
    await kernel.execute(
      'const catalog = { entries: [1], "odd key": 2, inner: { deepest: "x" } }; class Cat { purr(a, b) { return a } static kind = 1 }; let touched = 0; const trap = { get armed() { touched++; return {} } }',
    )
  })
  afterAll(() => kernel.dispose())

  test.each([
    ['catal', ['catalog'], 0],
    ['1 + catalog.en', ['entries'], 12],
    ['catalog?.inner.deep', ['deepest'], 15],
    ['catalog["inner"].deep', ['deepest'], 17],
    ['"abc".toUpperC', ['toUpperCase'], 6],
    ['catalog.entries[0].toFix', ['toFixed'], 19],
    ['[1].findLa', ['findLast', 'findLastIndex'], 4],
    ['awai', ['await'], 0],
    ['require("fs/pro', ['fs/promises'], 9],
    ['import x from "node:readl', ['node:readline', 'node:readline/promises'], 15],
    ['let mine = 1; min', ['mine'], 14],
    ['nothing.here.', [], 13],
    ['f(x).', [], 5],
    ['1.5', [], 3],
    ['"😀" + catal', ['catalog'], 6],
  ])('%s', async (code, matches, start) => {
    const reply = await kernel.ask('complete_request', { code, cursor_pos: [...code].length })
    expect(reply).toMatchObject({ status: 'ok', matches, cursor_start: start, cursor_end: [...code].length })
  })

  test('looking runs no getters', async () => {
    await kernel.ask('complete_request', { code: 'trap.armed.', cursor_pos: 11 })
    await kernel.ask('inspect_request', { code: 'trap.armed', cursor_pos: 5, detail_level: 0 })
    expect(await kernel.value('touched')).toBe('0')
  })

  test('inspection tells type, signature, value and source', async () => {
    const inspect = async (code: string, cursor: number, detail = 0): Promise<string> => {
      const reply = await kernel.ask('inspect_request', { code, cursor_pos: cursor, detail_level: detail })
      return reply.found ? ((reply.data as Record<string, string>)['text/plain'] ?? '') : 'not found'
    }
    expect(await inspect('catalog.entries', 10)).toBe('catalog.entries: Array\n[ 1 ]')
    expect(await inspect('new Cat', 7)).toContain('class Cat')
    expect(await inspect('Cat.prototype.purr(', 19)).toContain('purr(a, b)')
    expect(await inspect('Cat', 1, 1)).toContain('return a')
    expect(await inspect('Math.max', 6)).toContain('Math.max')
    expect(await inspect('nothing', 3)).toBe('not found')
    expect(await inspect('', 0)).toBe('not found')
  })

  test.each([
    ['1 + 1', 'complete'],
    ['function f() {', 'incomplete'],
    ['const s = `a', 'incomplete'],
    ['/* open', 'incomplete'],
    ['await f(1,', 'incomplete'],
    ['let x: number = 1', 'complete'],
    ['function g(a: string) {', 'incomplete'],
    ['let = = 3', 'invalid'],
    [')', 'invalid'],
  ])('%s is %s', async (code, status) => {
    expect((await kernel.ask('is_complete_request', { code })).status).toBe(status)
  })

  test('an incomplete block asks for more indentation', async () => {
    expect(await kernel.ask('is_complete_request', { code: '  if (x) {' })).toEqual({
      status: 'incomplete',
      indent: '    ',
    })
  })

  test('history: tail, range, search', async () => {
    await kernel.value('"findme 1"')
    await kernel.value('"findme 2"')
    await kernel.value('"findme 2"')
    await kernel.execute('"findme hidden"', { store_history: false })
    const ask = async (content: Record<string, unknown>): Promise<unknown[][]> =>
      (await kernel.ask('history_request', { output: false, raw: true, ...content })).history as unknown[][]
    const tail = await ask({ hist_access_type: 'tail', n: 2 })
    expect(tail.map((entry) => entry[2])).toEqual(['"findme 2"', '"findme 2"'])
    const [session, line] = tail[0] ?? []
    expect(await ask({ hist_access_type: 'range', session, start: line, stop: Number(line) + 1 })).toEqual([
      tail[0],
    ])
    expect(await ask({ hist_access_type: 'search', pattern: '*findme*', unique: true })).toHaveLength(2)
    expect(await ask({ hist_access_type: 'search', pattern: '*findme*', n: 1 })).toHaveLength(1)
    expect((await ask({ hist_access_type: 'tail', n: 1, output: true }))[0]?.[2]).toEqual([
      '"findme 2"',
      "'findme 2'",
    ])
  })
})

describe('stdin', () => {
  let kernel: KernelClient
  beforeAll(async () => {
    kernel = await KernelClient.start()
  })
  afterAll(() => kernel.dispose())

  async function asked(id: string): Promise<Record<string, unknown>> {
    const find = () => kernel.log.find((m) => m.channel === 'stdin' && m.parentId === id)
    await kernel.until(() => find() !== undefined)
    return find()?.content ?? {}
  }

  test.each([
    ['input("Name? ")', { prompt: 'Name? ', password: false }],
    ['prompt("Name? ")', { prompt: 'Name? ', password: false }],
    ['input("Secret ", { password: true })', { prompt: 'Secret ', password: true }],
    ['await input("Name? ")', { prompt: 'Name? ', password: false }],
    ['const ask = async () => { await 0; return input() }; await ask()', { prompt: '', password: false }],
  ])('%s', async (code, request) => {
    const id = kernel.submit(code, { allow_stdin: true })
    expect(await asked(id)).toEqual(request)
    kernel.send('stdin', 'input_reply', { status: 'ok', value: 'Ada' })
    expect(outputsOf(await kernel.finished(id), 'execute_result')[0]?.data).toEqual({ 'text/plain': "'Ada'" })
  })

  test('output before a question is sent before it', async () => {
    const id = kernel.submit('console.log("before"); input(); console.log("after")', { allow_stdin: true })
    await asked(id)
    await kernel.printed(id, 'before')
    kernel.send('stdin', 'input_reply', { status: 'ok', value: '' })
    expect(streamText((await kernel.finished(id)).messages)).toBe('before\nafter\n')
  })

  test('an interrupt ends the question, and a late answer is for nobody', async () => {
    const id = kernel.submit('let kept3 = 3; input("?")', { allow_stdin: true })
    await asked(id)
    await kernel.ask('interrupt_request', {}, 'control')
    expect((await kernel.finished(id)).reply.ename).toBe('KeyboardInterrupt')
    kernel.send('stdin', 'input_reply', { status: 'ok', value: 'stale' })
    const next = kernel.submit('[kept3, input("again?")]', { allow_stdin: true })
    await asked(next)
    kernel.send('stdin', 'input_reply', { status: 'ok', value: 'fresh' })
    expect(outputsOf(await kernel.finished(next), 'execute_result')[0]?.data).toEqual({
      'text/plain': "[ 3, 'fresh' ]",
    })
  })

  test('a client that takes no questions makes it a clear error', async () => {
    const { reply } = await kernel.execute('input()', { allow_stdin: false })
    expect(reply).toMatchObject({ ename: 'StdinNotImplementedError' })
    expect(reply.evalue).toContain('does not support input')
  })
})

describe('the end', () => {
  test.each([
    ['idle', undefined],
    ['computing', 'console.log("go"); while (true) {}'],
    ['asking', 'console.log("go"); input()'],
  ])('shutdown while %s is answered and ends the process', async (_name, code) => {
    const kernel = await KernelClient.start()
    if (code !== undefined) await kernel.printed(kernel.submit(code, { allow_stdin: true }), 'go')
    const id = kernel.send('control', 'shutdown_request', { restart: true })
    await kernel.until(() => kernel.log.some((m) => m.parentId === id && m.channel === 'control'))
    expect(kernel.log.find((m) => m.parentId === id && m.channel === 'control')?.content).toEqual({
      status: 'ok',
      restart: true,
    })
    await kernel.exit
    await kernel.dispose()
  })

  test('process.exit in a cell sends what was written before', async () => {
    const kernel = await KernelClient.start()
    const id = kernel.submit('for (let i = 0; i < 2000; i++) console.log("line", i); process.exit(3)')
    expect((await kernel.exit).code).toBe(3)
    await kernel.printed(id, 'line 1999')
    await kernel.dispose()
  })

  test('a kernel whose parent asked to be watched ends with it', async () => {
    const parent = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
    const kernel = await KernelClient.start({ env: { JPY_PARENT_PID: String(parent.pid) } })
    parent.kill('SIGKILL')
    await kernel.exit
    await kernel.dispose()
  })

  test('a missing or wrong connection file is told', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'jsk-conn-'))
    const file = join(folder, 'c.json')
    writeFileSync(file, '{"transport": "carrier-pigeon"}')
    for (const [argument, message] of [
      [join(folder, 'missing.json'), 'cannot be read'],
      [file, 'is not tcp or ipc'],
    ] as const) {
      const child = spawn(process.execPath, [programFile('javascript-kernel'), argument], {
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      let text = ''
      child.stderr.on('data', (chunk) => {
        text += chunk
      })
      const [code] = await once(child, 'close')
      expect(code).toBe(2)
      expect(text).toContain(message)
    }
    rmSync(folder, { recursive: true, force: true })
  })
})

test('the kernelspec starts this program', () => {
  expect(javascriptKernelspec('/usr/bin/node', '/opt/javascript-kernel.js')).toMatchObject({
    argv: ['/usr/bin/node', '/opt/javascript-kernel.js', '{connection_file}'],
    language: 'javascript',
    interrupt_mode: 'message',
  })
})
