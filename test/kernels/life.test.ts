import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { alive, gone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Listener, withKernels } from './harness.ts'

test('a Python kernel runs a cell and settles it behind its last output', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const listener = new Listener(await start('python3'))
    const run = await listener.run('print("one"); 1 + 1')
    expect(listener.text(run)).toBe('one\n')
    expect(listener.result(run)).toBe('2')
    const settled = listener.events.findIndex((event) => event.kind === 'settled')
    const last = listener.events.findLastIndex((e) => e.kind === 'message' && e.message.parent_id === run)
    expect(settled).toBeGreaterThan(last)
    const seqs = listener.events.map((event) => event.seq)
    expect(seqs).toEqual(seqs.map((_, index) => index + 1))
  })
})

test('the first cell of a fresh kernel loses nothing of its output', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernels = await Promise.all([start('python3'), start('python3'), start('python3')])
    for (const kernel of kernels) {
      const listener = new Listener(kernel)
      const run = await listener.run('for i in range(100): print(i, flush=True)')
      expect(listener.text(run).trimEnd().split('\n')).toEqual(Array.from({ length: 100 }, (_, i) => `${i}`))
    }
  })
})

test('an interrupt ends a sleeping cell and keeps the variables', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    await listener.run('kept = 42')
    const run = await listener.begin('import time; print("sleeping", flush=True); time.sleep(600)')
    await until('the cell to sleep', () => listener.text(run).includes('sleeping'))
    expect(kernel.summary().state).toBe('busy')
    await kernel.interrupt()
    const { reply } = await listener.settled(run)
    expect(reply).toMatchObject({ status: 'error', ename: 'KeyboardInterrupt' })
    const after = await listener.run('kept')
    expect(listener.result(after)).toBe('42')
  })
})

test('input() asks on stdin and gets its answer', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    const requestId = 'with-input'
    await kernel.send({
      requestId,
      channel: 'shell',
      msgType: 'execute_request',
      content: { code: 'print("hello " + input("name? "))', silent: false, allow_stdin: true },
    })
    const asked = await listener.event('message', (event) => event.message.msg_type === 'input_request')
    expect(asked.message.content).toMatchObject({ prompt: 'name? ', password: false })
    await kernel.send({
      requestId: 'the-answer',
      channel: 'stdin',
      msgType: 'input_reply',
      content: { value: 'world' },
      parentId: asked.message.msg_id,
    })
    await listener.settled(requestId)
    expect(listener.text(requestId)).toContain('hello world')
  })
})

test('ask resolves with the reply and rejects when it is aborted', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    const reply = await kernel.ask('complete_request', { code: 'impor', cursor_pos: 5 })
    expect(reply).toMatchObject({ status: 'ok', matches: ['import'] })
    const run = await listener.begin('import time; time.sleep(600)')
    const abort = new AbortController()
    const waiting = kernel.ask('complete_request', { code: 'impor', cursor_pos: 5 }, abort.signal)
    abort.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'client_aborted' })
    await kernel.interrupt()
    await listener.settled(run)
  })
})

test('shutdown ends the kernel, its host and every process a cell started', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, provider, store }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    const run = await listener.run(
      [
        'import subprocess, os',
        'a = subprocess.Popen(["sleep", "600"])',
        'b = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], preexec_fn=os.setpgrp)',
        'print(a.pid, b.pid, flush=True)',
      ].join('\n'),
    )
    const children = listener.text(run).trim().split(' ').map(Number)
    const { pid, host_pid: host } = kernel.summary()
    if (pid === null || host === null) throw new Error('a running kernel has pids')
    expect(children.every(alive)).toBe(true)
    await kernel.shutdown()
    for (const process of [pid, host, ...children]) await gone(process)
    const died = await listener.event('died')
    expect(died.expected).toBe(true)
    expect(provider.running()).toEqual([])
    expect(store.all('SELECT * FROM kernels')).toEqual([])
  })
})

test('a kernel that is killed is reported at once with its signal, and open requests end', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start, provider, store }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    const run = await listener.begin('import time; print("up", flush=True); time.sleep(600)')
    await until('the cell to run', () => listener.text(run).includes('up'))
    process.kill(kernel.summary().pid ?? Number.NaN, 'SIGKILL')
    const died = await listener.event('died')
    expect(died).toMatchObject({ signal: 'SIGKILL', code: null, expected: false })
    expect(kernel.summary().state).toBe('dead')
    await expect(kernel.ask('kernel_info_request', {})).rejects.toMatchObject({ code: 'kernel_died' })
    // Acknowledging the death lets host, row and folder go.
    await until('the kernel to be forgotten', () => provider.running().length === 0)
    await store.settled()
    expect(store.all('SELECT * FROM kernels')).toEqual([])
  })
})
