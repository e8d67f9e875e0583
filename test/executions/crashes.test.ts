/**
 * The daemon is killed between any two commits and goes on from the store; the host still has what was not acknowledged. Every line of
 * output is there once, nothing runs twice, every execution has exactly one end.
 */
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readExecution } from '../../daemon/executions/reading.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import { isTerminal } from '../../protocol/notebook.ts'
import { kernelRow, ScriptedKernel, TestRoom, textOf } from './support.ts'

type Step =
  | { readonly kind: 'print'; readonly name: 'stdout' | 'stderr'; readonly text: string }
  | { readonly kind: 'display' | 'update'; readonly id: string; readonly text: string }
  | { readonly kind: 'clear'; readonly wait: boolean }
  | { readonly kind: 'error' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('print' as const),
      name: fc.constantFrom('stdout' as const, 'stderr' as const),
      text: fc.oneof(
        fc.stringMatching(/^[a-z]{1,5}\n$/),
        fc.constantFrom(
          '\r50%',
          '\r100%\n',
          'ab\b',
          '\x1b[31m',
          '\x1b[0m',
          '\x1b[A',
          '\x1b[',
          '2K',
          '😀',
          'x'.repeat(9_000),
        ),
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('display' as const, 'update' as const),
      id: fc.constantFrom('', 'a', 'b'),
      text: fc.stringMatching(/^[a-z]{1,5}$/),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), wait: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'error' as const }) },
)

function play(kernel: ScriptedKernel, id: ExecutionId, steps: readonly Step[]): void {
  for (const it of steps) {
    switch (it.kind) {
      case 'print':
        kernel.print(id, it.text, it.name)
        break
      case 'display':
        kernel.display(id, { 'text/plain': it.text }, it.id || undefined)
        break
      case 'update':
        kernel.display(id, { 'text/plain': it.text }, it.id || 'none', 'update_display_data')
        break
      case 'clear':
        kernel.say(id, 'clear_output', { wait: it.wait })
        break
      case 'error':
        kernel.say(id, 'error', { ename: 'E', evalue: '', traceback: [] })
        break
    }
  }
}

/** Runs the script in one go, without crashes. */
async function undisturbed(steps: readonly Step[]): Promise<string[]> {
  const room = new TestRoom()
  const kernel = room.present
  if (!kernel) throw new Error('no kernel')
  const id = await room.run({ code: 'x' })
  await room.rest(0)
  kernel.begin(id)
  play(kernel, id, steps)
  kernel.end(id)
  await room.rest(60)
  const texts = room.executions.outputs(id).map(textOf)
  await room.close()
  return texts
}

describe('killed between two commits', () => {
  test('outputs are those of an undisturbed run, whenever it was killed', async () => {
    const moment = fc.record({ after: fc.nat(6), release: fc.nat(3), rest: fc.constantFrom(0, 10, 60) })
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 20 }),
        fc.array(moment, { maxLength: 5 }),
        fc.constantFrom(50, 1_000, 1_000_000),
        async (steps, moments, sliceUnits) => {
          const expected = await undisturbed(steps)
          const first = new TestRoom({ limits: { sliceUnits } })
          let room = first
          const kernel = room.present
          if (!kernel) throw new Error('no kernel')
          const id = await room.run({ code: 'x' })
          await room.rest(0)
          kernel.begin(id)
          let played = 0
          for (const { after, release, rest } of moments) {
            room.holding = true
            play(kernel, id, steps.slice(played, played + after))
            played += after
            await room.rest(rest)
            room.release(release)
            await setImmediate()
            room = room.crash()
          }
          play(kernel, id, steps.slice(played))
          kernel.end(id)
          for (let i = 0; i < 400 && !room.executions.idle; i++) await room.rest(20)
          await room.rest(20)
          expect(room.executions.outputs(id).map(textOf)).toEqual(expected)
          expect(readExecution(room.store, id)?.outputs.map(textOf)).toEqual(expected)
          // A peer that saw every event over all lives of the daemon shows the same, long texts in full.
          const seen = room.mirror.outputs.get(id) ?? []
          expect(seen).toHaveLength(expected.length)
          for (const [i, output] of seen.entries()) {
            if (output.output_type === 'stream' && String(output.text).length > 8_000) continue
            expect(textOf(output)).toBe(expected[i])
          }
          expect(room.mirror.statuses.get(id)?.filter((status) => isTerminal(status as 'done'))).toEqual([
            'done',
          ])
          expect(kernel.sent.map((request) => request.requestId)).toEqual([id])
          await room.close()
          await first.close()
        },
      ),
      { numRuns: 60 },
    )
  })

  test('every printed line is there once', async () => {
    let room = new TestRoom({ limits: { sliceUnits: 700 } })
    const kernel = room.present
    if (!kernel) throw new Error('no kernel')
    const id = await room.run({ code: 'x' })
    await room.rest(0)
    kernel.begin(id)
    let lines = ''
    for (let life = 0; life < 30; life++) {
      room.holding = true
      for (let i = 0; i < 40; i++) {
        const line = `line ${life}.${i}\n`
        lines += line
        kernel.print(id, line)
      }
      await room.rest(70)
      room.release(life % 3)
      await setImmediate()
      room = room.crash()
    }
    kernel.end(id)
    for (let i = 0; i < 400 && !room.executions.idle; i++) await room.rest(60)
    const output = room.mirror.outputs.get(id)?.[0]
    expect(output?.output_type === 'stream' && output.text === lines).toBe(true)
    await room.close()
  })
})

describe('after a restart', () => {
  test('what was handed to a kernel that is alive is asked for again and runs once; the queue follows', async () => {
    const room = new TestRoom()
    const kernel = room.present
    if (!kernel) throw new Error('no kernel')
    const a = await room.run({ code: 'a' })
    const b = await room.run({ code: 'b' })
    await room.rest()
    kernel.begin(a)
    const next = room.crash()
    await next.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([a])
    expect(kernel.repeated.map((request) => request.requestId)).toEqual([a])
    expect(next.executions.running?.execution_id).toBe(a)
    kernel.end(a)
    await next.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([a, b])
    kernel.begin(b)
    kernel.end(b)
    await next.rest()
    expect(next.executions.get(b)?.status).toBe('done')
    await next.close()
  })

  test('one that was marked but never reached the host is sent now', async () => {
    const room = new TestRoom()
    const kernel = room.present
    if (!kernel) throw new Error('no kernel')
    const made = room.executions.execute({ code: 'a', on_error: 'stop', allow_stdin: true, by: 'test' })
    await room.commit({ statements: made.statements, events: made.events })
    const next = room.crash()
    await next.rest()
    expect(kernel.sent.map((request) => request.requestId)).toEqual([made.execution.execution_id])
    await next.close()
  })

  test('whose kernel is gone is lost with what was printed; what waited behind it is cancelled', async () => {
    const room = new TestRoom()
    const kernel = room.present
    if (!kernel) throw new Error('no kernel')
    const a = await room.run({ code: 'a' })
    const b = await room.run({ code: 'b' })
    await room.rest()
    kernel.begin(a)
    kernel.print(a, 'until then\n')
    await room.rest()
    const next = room.crash(null)
    await next.rest()
    expect(next.executions.get(a)).toMatchObject({ status: 'lost', reason: 'its kernel is gone' })
    expect(next.executions.outputs(a).map(textOf)).toEqual(['stdout:until then\n'])
    expect(next.executions.get(b)).toMatchObject({ status: 'cancelled' })
    expect(next.executions.idle).toBe(true)
    await next.close()
  })

  test('what waited for a kernel that never was starts on a fresh one', async () => {
    const room = new TestRoom({ kernel: null })
    room.start = () => new Promise(() => {})
    const a = await room.run({ code: 'a' })
    const b = await room.run({ code: 'b' })
    await room.rest()
    const fresh = new ScriptedKernel()
    await room.store.write([kernelRow(fresh, room.id)])
    fresh.onExecute = (id) => {
      fresh.begin(id)
      fresh.end(id)
    }
    const next = room.crash(null, async (self) => {
      self.present = fresh
      self.listen()
      return fresh
    })
    await next.rest(200)
    expect(fresh.sent.map((request) => request.requestId)).toEqual([a, b])
    expect(next.executions.get(b)?.status).toBe('done')
    await next.close()
  })
})

describe('any order of events', () => {
  test('gives every execution exactly one end', async () => {
    const action = fc.constantFrom(
      'run',
      'run cell',
      'run all',
      'interrupt',
      'cancel first',
      'cancel last',
      'begin',
      'print',
      'end',
      'fail',
      'die',
      'restart',
      'crash',
      'crash without kernel',
      'rest',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
        let room = new TestRoom()
        for (const source of ['a', '', 'b']) room.addCell(source)
        const begun = new Set<ExecutionId>()
        const kernels = new Set<ScriptedKernel>(room.present ? [room.present] : [])
        const start = async (self: TestRoom): Promise<ScriptedKernel> => {
          const kernel = new ScriptedKernel()
          kernels.add(kernel)
          await self.store.write([kernelRow(kernel, self.id)])
          self.present = kernel
          self.listen()
          return kernel
        }
        const first = room
        room.start = () => start(first)
        const current = () => room.present?.sent.findLast((request) => request.msgType === 'execute_request')
        for (const it of actions) {
          const id = current()?.requestId as ExecutionId | undefined
          const kernel = room.present
          switch (it) {
            case 'run':
              void room.run({ code: 'x' })
              break
            case 'run cell': {
              const [cell] = room.codeCells()
              if (cell) void room.run(cell)
              break
            }
            case 'run all':
              void room.runAll()
              break
            case 'interrupt':
              void room.executions.interrupt()
              break
            case 'cancel first':
            case 'cancel last': {
              const queued = room.executions.queued
              const one = it === 'cancel first' ? queued[0] : queued.at(-1)
              if (one) void room.executions.cancel(one.execution_id)
              break
            }
            case 'begin':
              if (id && kernel && !begun.has(id)) {
                begun.add(id)
                kernel.begin(id)
              }
              break
            case 'print':
              if (id && kernel && begun.has(id)) kernel.print(id, 'x\n')
              break
            case 'end':
            case 'fail':
              if (id && kernel && begun.has(id)) {
                if (it === 'end') kernel.end(id)
                else kernel.fail(id)
              }
              break
            case 'die':
            case 'restart':
              room.present = null
              if (it === 'die') kernel?.die()
              if (kernel) room.executions.kernelGone('gone', it === 'die' ? 'died' : 'restarted')
              break
            case 'crash':
            case 'crash without kernel':
              room = room.crash(it === 'crash' ? room.present : null, start)
              break
            case 'rest':
              await room.rest(20)
              break
          }
        }
        // Everything still open is brought to its end.
        for (let i = 0; i < 200 && !room.executions.idle; i++) {
          await room.rest(10)
          const id = current()?.requestId as ExecutionId | undefined
          const open = id && room.executions.get(id)
          if (id && open && !isTerminal(open.status)) room.present?.end(id)
        }
        await room.rest(100)
        expect(room.executions.idle).toBe(true)
        for (const [id, statuses] of room.mirror.statuses) {
          const ends = statuses.filter((status) => isTerminal(status as 'done'))
          expect(ends, `${id}: ${statuses.join(' ')}`).toHaveLength(1)
          expect(isTerminal(statuses.at(-1) as 'done')).toBe(true)
          expect(room.executions.get(id as ExecutionId)?.status).toBe(ends[0])
        }
        const sent = [...kernels].flatMap((kernel) => kernel.sent.map((request) => request.requestId))
        expect(new Set(sent).size).toBe(sent.length)
        await room.close()
      }),
      { numRuns: 150 },
    )
  })
})
