import { expect, test } from 'vitest'
import { processRow } from '../../daemon/kernel-host/process-identity.ts'
import { needs } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { Listener, withKernels } from './harness.ts'

test('50,000 messages of one line all arrive, once and in order', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const listener = new Listener(await start('python3'))
    // Not print: its flush waits for a thread each time. This is as fast as a Python kernel publishes.
    const run = await listener.begin(
      [
        'kernel = get_ipython().kernel',
        'def say(text): kernel.send_response(kernel.iopub_socket, "stream", {"name": "stdout", "text": text})',
        'for i in range(50_000): say(f"{i}\\n")',
      ].join('\n'),
    )
    await listener.settled(run, 100_000)
    const lines = listener.text(run).trimEnd().split('\n')
    expect(lines.length).toBe(50_000)
    expect(lines.every((line, index) => line === `${index}`)).toBe(true)
  })
})

test('one message of 20 MB of text comes in pieces that are the same text', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const listener = new Listener(await start('python3'))
    const run = await listener.run(
      'print("".join(chr(0x1f600 + i % 50) + "ä\\\\\\"\\n" for i in range(2_000_000)), end="")',
    )
    const text = listener.text(run)
    const expected = Array.from({ length: 50 }, (_, i) => `${String.fromCodePoint(0x1f600 + i)}ä\\"\n`).join(
      '',
    )
    expect(text.length).toBe(expected.length * 40_000)
    expect(text === expected.repeat(40_000)).toBe(true)
    const streams = listener.events.filter((e) => e.kind === 'message' && e.message.msg_type === 'stream')
    expect(streams.length).toBeGreaterThan(5)
  })
})

test('a display of 20 MB passes whole', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const listener = new Listener(await start('python3'))
    const run = await listener.run(
      'from IPython.display import publish_display_data as p; p({"text/plain": "x" * 20_000_000})',
    )
    const shown = await listener.event('message', (event) => event.message.msg_type === 'display_data')
    expect(shown.message.parent_id).toBe(run)
    expect((shown.message.content.data as Record<string, string>)['text/plain']?.length).toBe(20_000_000)
  })
})

test('a kernel whose output nobody acknowledges is stopped, goes on when it is, and loses nothing', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel, { acknowledge: false })
    // 150 MB in messages of 1 MB, each line with its number.
    const run = await listener.begin(
      'for i in range(150): print(str(i).ljust(999_999, "."), flush=True)\nprint("end")',
    )
    const { pid } = kernel.summary()
    await until('the kernel to be stopped', () => stopped(pid))
    // Behind the window nothing comes: what is there is acknowledged, piece by piece, until the end.
    await until(
      'the end of the cell',
      () => {
        kernel.acknowledge(kernel.seq)
        return listener.events.some((event) => event.kind === 'settled')
      },
      { every: 2 },
    )
    const lines = listener.text(run).trimEnd().split('\n')
    expect(lines.length).toBe(151)
    expect(lines.every((line, i) => (i === 150 ? line === 'end' : line.startsWith(`${i}.`)))).toBe(true)
  })
})

test('an interrupt reaches a kernel that was stopped for its output', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel, { acknowledge: false })
    const run = await listener.begin('while True: print("x" * 1_000_000, flush=True)')
    const { pid } = kernel.summary()
    await until('the kernel to be stopped', () => stopped(pid))
    await kernel.interrupt()
    await until('the cell to end', () => {
      kernel.acknowledge(kernel.seq)
      return listener.events.some((event) => event.kind === 'settled')
    })
    expect((await listener.settled(run)).reply).toMatchObject({ ename: 'KeyboardInterrupt' })
  })
})

function stopped(pid: number | null): boolean {
  return processRow(pid ?? 0)?.state === 'T'
}
