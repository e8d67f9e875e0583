import { afterEach, describe, expect, test } from 'vitest'
import { ExecutionRecord } from '../../client/sdk/execution-record.ts'
import { applyOutput } from '../../client/sdk/mirror-executions.ts'
import { readExecution, readOutputText } from '../../daemon/executions/reading.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { BlobRef, LongText, Output } from '../../protocol/notebook.ts'
import { until } from '../support/until.ts'
import { Mirror, type ScriptedKernel, TestRoom, type TestRoomOptions, textOf } from './support.ts'

const rooms: TestRoom[] = []

interface Running {
  room: TestRoom
  kernel: ScriptedKernel
  id: ExecutionId
}

async function running(options: TestRoomOptions = {}): Promise<Running> {
  const room = new TestRoom(options)
  rooms.push(room)
  const kernel = room.present
  if (!kernel) throw new Error('no kernel')
  const id = await room.run(room.addCell('x'))
  await room.rest()
  kernel.begin(id)
  await room.rest()
  return { room, kernel, id }
}

async function finish({ room, kernel, id }: Running): Promise<Output[]> {
  kernel.end(id)
  await room.rest()
  const execution = room.executions.get(id)
  expect(execution?.status).toBe('done')
  // Whoever reads, it is the same: memory, store, and what peers made of the events.
  expect(readExecution(room.store, id)?.outputs).toEqual(execution?.outputs)
  return execution?.outputs ?? []
}

async function wholeText(room: TestRoom, id: ExecutionId, index = 0): Promise<string> {
  let text = ''
  for (let offset: number | null = 0; offset !== null; ) {
    const slice = await readOutputText(room.store, room.blobs, {
      execution_id: id,
      index,
      offset,
      length: 100_000,
    })
    text += slice.text
    offset = slice.next_offset
  }
  return text
}

const count = (room: TestRoom, type: DurableEvent['type']) =>
  room.told.filter((event) => event.type === type).length

afterEach(async () => {
  for (const room of rooms.splice(0)) await room.close()
})

describe('streams', () => {
  test('the first piece is told at once, then one every 50 ms', async () => {
    const run = await running()
    run.kernel.print(run.id, 'a')
    await run.room.rest(10)
    expect(run.room.mirror.texts(run.id)).toEqual(['stdout:a'])
    for (let i = 0; i < 100; i++) run.kernel.print(run.id, `${i % 10}`)
    await run.room.rest(10)
    expect(run.room.mirror.texts(run.id)).toEqual(['stdout:a'])
    await run.room.rest(60)
    expect(count(run.room, 'output_splice')).toBe(1)
    expect(run.room.mirror.texts(run.id)).toEqual([`stdout:a${'0123456789'.repeat(10)}`])
    await finish(run)
  })

  test('64 KiB do not wait', async () => {
    const run = await running()
    run.kernel.print(run.id, 'a\n')
    await run.room.rest(10)
    run.kernel.print(run.id, 'b'.repeat(70_000))
    await run.room.rest(0)
    expect(run.room.mirror.texts(run.id)[0]).toHaveLength('stdout:a\n'.length + 70_000)
    await finish(run)
  })

  test('ten thousand progress steps are one line in one output', async () => {
    const run = await running()
    for (let i = 1; i <= 10_000; i++) {
      run.kernel.print(run.id, `\r${i} of 10000`, 'stderr')
      if (i % 500 === 0) await run.room.rest(20)
    }
    const outputs = await finish(run)
    expect(outputs.map(textOf)).toEqual(['stderr:10000 of 10000'])
    expect(run.room.mirror.texts(run.id)).toEqual(['stderr:10000 of 10000'])
    expect(run.room.store.all('SELECT * FROM output_pieces')).toEqual([])
  })

  test('stdout and stderr stay apart and in order', async () => {
    const run = await running()
    run.kernel.print(run.id, 'out 1\n')
    run.kernel.print(run.id, 'err\n', 'stderr')
    run.kernel.print(run.id, 'out 2\n')
    run.kernel.display(run.id, { 'text/plain': 'picture' })
    run.kernel.print(run.id, 'out 3\n')
    run.kernel.print(run.id, 'out 4\n')
    const outputs = await finish(run)
    expect(outputs.map(textOf)).toEqual([
      'stdout:out 1\n',
      'stderr:err\n',
      'stdout:out 2\n',
      'display:picture',
      'stdout:out 3\nout 4\n',
    ])
  })

  test('a long text is kept in pieces, shown by both ends, and read back whole', async () => {
    const run = await running()
    let text = ''
    for (let i = 0; i < 40; i++) {
      const part = `${i} ${'é😀'.repeat(1000)}\n`
      text += part
      run.kernel.print(run.id, part)
      await run.room.rest(30)
    }
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)[0] === `stdout:${text}`).toBe(true)
    const [output] = await finish(run)
    const long = output?.output_type === 'stream' ? (output.text as LongText) : null
    expect(long?.size).toBe(Buffer.byteLength(text))
    expect(long?.chars).toBe(text.length)
    expect(text.startsWith(long?.head ?? '-')).toBe(true)
    expect(text.endsWith(long?.tail ?? '-')).toBe(true)
    expect((await wholeText(run.room, run.id)) === text).toBe(true)
    const pieces = run.room.store.all<{ text: string; char_offset: number }>(
      'SELECT * FROM output_pieces ORDER BY 3',
    )
    for (const piece of pieces) expect(piece.text).not.toMatch(/\p{Surrogate}/u)
  })

  test('slices never part a surrogate pair and end where the text ends', async () => {
    const run = await running()
    run.kernel.print(run.id, '😀'.repeat(9_000))
    await finish(run)
    const read = (offset: number, length: number) =>
      readOutputText(run.room.store, run.room.blobs, { execution_id: run.id, index: 0, offset, length })
    expect(await read(0, 3)).toEqual({ text: '😀', offset: 0, next_offset: 2, chars: 18_000 })
    expect(await read(17_998, 100)).toEqual({ text: '😀', offset: 17_998, next_offset: null, chars: 18_000 })
    expect(await read(18_000, 100)).toEqual({ text: '', offset: 18_000, next_offset: null, chars: 18_000 })
    await expect(
      readOutputText(run.room.store, run.room.blobs, {
        execution_id: run.id,
        index: 1,
        offset: 0,
        length: 1,
      }),
    ).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a progress bar at the end of a long text rewrites only the last row', async () => {
    const run = await running()
    run.kernel.print(run.id, `${'line\n'.repeat(100_000)}`)
    await run.room.rest()
    const statements: string[] = []
    const { store } = run.room
    const write = store.write.bind(store)
    store.write = (unit) => {
      for (const statement of unit)
        if (statement.sql.includes('output_pieces')) statements.push(String(statement.values.at(-1)))
      return write(unit)
    }
    for (let i = 0; i < 20; i++) {
      run.kernel.print(run.id, `\rstep ${i}`)
      await run.room.rest(60)
    }
    expect(Math.max(...statements.map((text) => text.length))).toBeLessThan(8_192)
    await finish(run)
    expect((await wholeText(run.room, run.id)) === `${'line\n'.repeat(100_000)}step 19`).toBe(true)
  })

  test('a text longer than a slice is taken in parts, in order', async () => {
    const run = await running({ limits: { sliceUnits: 10_000 } })
    const text = Array.from({ length: 20_000 }, (_, i) => `line ${i}\n`).join('')
    run.kernel.print(run.id, text)
    run.kernel.print(run.id, 'err', 'stderr')
    const before = run.room.commits
    await run.room.rest(500)
    expect(run.room.commits - before).toBeGreaterThan(10)
    expect(run.room.mirror.texts(run.id)[0] === `stdout:${text}`).toBe(true)
    expect(run.room.mirror.texts(run.id)[1]).toBe('stderr:err')
    await finish(run)
    expect((await wholeText(run.room, run.id)) === text).toBe(true)
  })

  test('half a surrogate pair from a kernel is stored as a replacement', async () => {
    const run = await running()
    run.kernel.print(run.id, 'a\ud83db')
    const outputs = await finish(run)
    expect(outputs.map(textOf)).toEqual(['stdout:a\ufffdb'])
  })

  test('what a thread prints after the end is added, without another end', async () => {
    const run = await running()
    run.kernel.print(run.id, 'in time\n')
    await finish(run)
    run.kernel.print(run.id, 'late\n')
    await run.room.rest()
    run.kernel.print(run.id, 'later\n')
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)).toEqual(['stdout:in time\nlate\nlater\n'])
    expect(run.room.executions.outputs(run.id).map(textOf)).toEqual(['stdout:in time\nlate\nlater\n'])
    expect(run.room.mirror.statuses.get(run.id)).toEqual(['queued', 'running', 'done'])
    expect(run.kernel.acknowledged).toBe(run.kernel.seq)
  })
})

describe('displays', () => {
  test('an update replaces the output with that id, also in earlier executions', async () => {
    const run = await running()
    run.kernel.display(run.id, { 'text/plain': 'one' }, 'd')
    run.kernel.display(run.id, { 'text/plain': 'other' }, 'e')
    await finish(run)
    const second = await run.room.run({ code: 'update' })
    await run.room.rest()
    run.kernel.begin(second)
    run.kernel.display(second, { 'text/plain': 'two' }, 'd', 'update_display_data')
    run.kernel.end(second)
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)).toEqual(['display:two', 'display:other'])
    expect(run.room.executions.outputs(run.id).map(textOf)).toEqual(['display:two', 'display:other'])
    expect(readExecution(run.room.store, run.id)?.outputs.map(textOf)).toEqual([
      'display:two',
      'display:other',
    ])
    expect(run.room.executions.outputs(second)).toEqual([])
  })

  test('an update finds its output after a restart of the daemon', async () => {
    const run = await running()
    run.kernel.display(run.id, { 'text/plain': 'one' }, 'd')
    await finish(run)
    const next = run.room.crash()
    rooms.push(next)
    run.kernel.display(run.id, { 'text/plain': 'two' }, 'd', 'update_display_data')
    await next.rest()
    expect(next.executions.outputs(run.id).map(textOf)).toEqual(['display:two'])
  })

  test('shown again under the same id, the earlier one follows', async () => {
    const run = await running()
    run.kernel.display(run.id, { 'text/plain': 'one' }, 'd')
    run.kernel.display(run.id, { 'text/plain': 'two' }, 'd')
    expect((await finish(run)).map(textOf)).toEqual(['display:two', 'display:two'])
  })

  test('shown twice under one id in one cell, with a daemon killed in between, both are the newest', async () => {
    const run = await running()
    run.kernel.display(run.id, { 'text/plain': 'one' }, 'd')
    await run.room.rest()
    const next = run.room.crash()
    rooms.push(next)
    run.kernel.display(run.id, { 'text/plain': 'two' }, 'd')
    run.kernel.end(run.id)
    await next.rest()
    expect(next.executions.outputs(run.id).map(textOf)).toEqual(['display:two', 'display:two'])
    expect(next.mirror.texts(run.id)).toEqual(['display:two', 'display:two'])
    // And of another cell, two lives later.
    const last = next.crash()
    rooms.push(last)
    const second = await last.run({ code: 'again' })
    await last.rest()
    run.kernel.begin(second)
    run.kernel.display(second, { 'text/plain': 'three' }, 'd')
    run.kernel.end(second)
    await last.rest()
    for (const id of [run.id, second])
      expect(new Set(last.executions.outputs(id).map(textOf))).toEqual(new Set(['display:three']))
  })

  test('a thousand updates are told as the newest only', async () => {
    const run = await running()
    run.kernel.display(run.id, { 'text/plain': '0' }, 'd')
    await run.room.rest()
    const before = count(run.room, 'output')
    for (let i = 1; i <= 1000; i++)
      run.kernel.display(run.id, { 'text/plain': `${i}` }, 'd', 'update_display_data')
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)).toEqual(['display:1000'])
    expect(count(run.room, 'output') - before).toBeLessThan(10)
    await finish(run)
  })

  test('an update of an id that was never shown changes nothing', async () => {
    const run = await running()
    run.kernel.display(run.id, { 'text/plain': 'x' }, 'never', 'update_display_data')
    expect(await finish(run)).toEqual([])
  })
})

describe('clear_output', () => {
  test('clears at once', async () => {
    const run = await running()
    run.kernel.print(run.id, 'old')
    await run.room.rest()
    run.kernel.say(run.id, 'clear_output', { wait: false })
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)).toEqual([])
    run.kernel.print(run.id, 'new')
    expect((await finish(run)).map(textOf)).toEqual(['stdout:new'])
  })

  test('with wait it clears with the next output, and not at all without one', async () => {
    const run = await running()
    run.kernel.print(run.id, 'old')
    run.kernel.say(run.id, 'clear_output', { wait: true })
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)).toEqual(['stdout:old'])
    run.kernel.display(run.id, { 'text/plain': 'new' })
    await run.room.rest()
    expect(run.room.mirror.texts(run.id)).toEqual(['display:new'])
    run.kernel.say(run.id, 'clear_output', { wait: true })
    expect((await finish(run)).map(textOf)).toEqual(['display:new'])
  })

  test('an animation is told as its last picture of each commit', async () => {
    const run = await running()
    for (let i = 0; i < 500; i++) {
      run.kernel.say(run.id, 'clear_output', { wait: true })
      run.kernel.display(run.id, { 'text/plain': `frame ${i}` })
    }
    expect((await finish(run)).map(textOf)).toEqual(['display:frame 499'])
    expect(run.room.mirror.texts(run.id)).toEqual(['display:frame 499'])
    expect(count(run.room, 'output')).toBeLessThan(10)
  })
})

describe('large values', () => {
  test('become blobs that are there before the row that names them', async () => {
    const run = await running()
    const image = Buffer.alloc(20_000, 7)
    const html = `<p>${'ü'.repeat(9_000)}</p>`
    const json = { rows: Array.from({ length: 2_000 }, (_, i) => i) }
    run.kernel.display(run.id, {
      'image/png': `${image.toString('base64')}\n`,
      'text/html': html,
      'application/vnd.data+json': json,
      'text/plain': 'short',
    })
    run.kernel.print(run.id, 'behind it')
    await until('both outputs', async () => {
      await run.room.rest(20)
      return run.room.mirror.texts(run.id).length === 2
    })
    expect(run.room.mirror.texts(run.id)).toEqual(['display:short', 'stdout:behind it'])
    const [output] = await finish(run)
    const data = output?.output_type === 'display_data' ? output.data : {}
    const png = data['image/png'] as BlobRef
    expect(png.size).toBe(image.length)
    expect(Buffer.from(await run.room.blobs.read(png.blob)).equals(image)).toBe(true)
    const read = async (mime: string) =>
      (
        await readOutputText(run.room.store, run.room.blobs, {
          execution_id: run.id,
          index: 0,
          mime,
          offset: 0,
          length: 1_000_000,
        })
      ).text
    expect(await read('image/png')).toBe(image.toString('base64'))
    expect(await read('text/html')).toBe(html)
    expect(JSON.parse(await read('application/vnd.data+json'))).toEqual(json)
  })

  test('a page of a reply is shown as an output', async () => {
    const run = await running()
    run.kernel.end(run.id, {
      status: 'ok',
      payload: [{ source: 'page', data: { 'text/plain': 'the manual' }, start: 0 }],
    })
    await run.room.rest()
    expect(run.room.executions.outputs(run.id).map(textOf)).toEqual(['display:the manual'])
  })

  test('an error of any size is kept to about 64 KiB, and says so', async () => {
    const run = await running()
    run.kernel.say(run.id, 'error', {
      ename: 'E',
      evalue: 'v'.repeat(100_000),
      traceback: Array.from({ length: 3_000 }, (_, i) => `frame ${i} ${'x'.repeat(100)}`),
    })
    run.kernel.end(run.id)
    await run.room.rest()
    const execution = run.room.executions.get(run.id)
    const [error] = execution?.outputs ?? []
    expect(JSON.stringify(error).length).toBeLessThan(100_000)
    expect(JSON.stringify(error)).toContain('bytes are missing here')
    expect(execution?.truncated).toBe(true)
  })
})

describe('the limit of an execution', () => {
  const limits = { outputBytes: 200_000 }

  test('keeps beginning and end and says exactly what is missing', async () => {
    const run = await running({ limits })
    let printed = ''
    for (let i = 0; i < 100; i++) {
      const part = `${String(i).padStart(5, '0')} ${'x'.repeat(10_000)}\n`
      printed += part
      run.kernel.print(run.id, part)
      await run.room.rest(20)
    }
    // Meanwhile one output shows the end.
    const live = run.room.mirror.texts(run.id)
    expect(live).toHaveLength(2)
    run.kernel.display(run.id, { 'text/plain': 'the last word' })
    const outputs = await finish(run)
    expect(run.room.executions.get(run.id)?.truncated).toBe(true)
    expect(run.room.mirror.outputs.get(run.id)?.length).toBe(outputs.length)
    expect(outputs).toHaveLength(4)
    const marker = textOf(outputs[1] as Output)
    const missing = Number(/(\d+) bytes of output are missing/.exec(marker)?.[1])
    const head = await wholeText(run.room, run.id, 0)
    const tail = await wholeText(run.room, run.id, 2)
    expect(printed.startsWith(head)).toBe(true)
    expect(printed.endsWith(tail)).toBe(true)
    expect(head.length + tail.length + missing).toBe(printed.length)
    expect(head.length + tail.length).toBeLessThan(200_000)
    expect(head.length + tail.length).toBeGreaterThan(100_000)
    expect(textOf(outputs[3] as Output)).toBe('display:the last word')
  })

  test('output between half and the whole of it is all kept, without a marker', async () => {
    const run = await running({ limits })
    const text = 'a line of text\n'.repeat(10_000)
    run.kernel.print(run.id, text)
    const outputs = await finish(run)
    expect(outputs).toHaveLength(2)
    expect((await wholeText(run.room, run.id, 0)) + (await wholeText(run.room, run.id, 1)) === text).toBe(
      true,
    )
    expect(run.room.executions.get(run.id)?.truncated).toBe(false)
    expect(run.room.mirror.outputs.get(run.id)).toHaveLength(2)
  })

  test('counts values too, and a clear gives everything back', async () => {
    const run = await running({ limits })
    for (let i = 0; i < 100; i++) run.kernel.display(run.id, { 'text/plain': `${i} ${'y'.repeat(5_000)}` })
    await run.room.rest()
    run.kernel.say(run.id, 'clear_output', { wait: false })
    run.kernel.print(run.id, 'small')
    const outputs = await finish(run)
    expect(outputs.map(textOf)).toEqual(['stdout:small'])
    expect(run.room.executions.get(run.id)?.truncated).toBe(false)
  })

  test('of many values the oldest beyond the beginning are left out', async () => {
    const run = await running({ limits })
    for (let i = 0; i < 100; i++) run.kernel.display(run.id, { 'text/plain': `${i} ${'y'.repeat(5_000)}` })
    const outputs = await finish(run)
    expect(textOf(outputs[0] as Output).startsWith('display:0 ')).toBe(true)
    expect(textOf(outputs.at(-1) as Output).startsWith('display:99 ')).toBe(true)
    expect(outputs.some((output) => textOf(output).includes('bytes of output are missing'))).toBe(true)
    expect(run.room.mirror.texts(run.id)).toEqual(outputs.map(textOf))
  })

  test('a crash beyond the limit loses nothing that was kept', async () => {
    const run = await running({ limits })
    const part = (i: number) => `${String(i).padStart(5, '0')} ${'x'.repeat(10_000)}\n`
    for (let i = 0; i < 30; i++) run.kernel.print(run.id, part(i))
    await run.room.rest(200)
    const next = run.room.crash()
    rooms.push(next)
    for (let i = 30; i < 60; i++) run.kernel.print(run.id, part(i))
    run.kernel.end(run.id)
    await next.rest(300)
    const outputs = next.executions.outputs(run.id)
    const missing = Number(/(\d+) bytes of output are missing/.exec(textOf(outputs[1] as Output))?.[1])
    const head = await wholeText(next, run.id, 0)
    const tail = await wholeText(next, run.id, 2)
    expect(head.startsWith(part(0))).toBe(true)
    expect(tail.endsWith(part(59))).toBe(true)
    expect(head.length + tail.length + missing).toBe(60 * part(0).length)
  })
})

describe('views', () => {
  test('replay tells a late peer what the others have seen, also what is not committed yet', async () => {
    const run = await running()
    run.kernel.print(run.id, 'a'.repeat(1_000))
    run.kernel.display(run.id, { 'text/plain': 'd' })
    await run.room.rest()
    run.room.holding = true
    run.kernel.print(run.id, 'more')
    await run.room.rest()
    const late = new Mirror()
    late.outputs.set(run.id, [])
    for (const event of run.room.executions.replay(run.id)) late.apply(structuredClone(event))
    run.room.holding = false
    run.room.release()
    await run.room.rest(0)
    expect(late.texts(run.id)).toEqual(run.room.mirror.texts(run.id))
    await finish(run)
  })

  test('replay of a long text is its ends, and a late peer can follow every change from there', async () => {
    const run = await running()
    const lines = (from: number, to: number) => {
      let text = ''
      for (let i = from; i < to; i++) text += `line ${i} ${'x'.repeat(100)}\n`
      return text
    }
    run.kernel.print(run.id, lines(0, 20_000))
    await run.room.rest()
    const { running: summary } = run.room.executions
    if (!summary) throw new Error('nothing runs')
    const record = new ExecutionRecord(summary)
    const late = (event: DurableEvent) => applyOutput(record, event)
    const replay = run.room.executions.replay(run.id)
    expect(JSON.stringify(replay).length).toBeLessThan(256 * 1024)
    for (const event of replay) late(structuredClone(event))
    const told = run.room.told.length
    // As far up as a terminal's cursor can go.
    run.kernel.print(run.id, `\x1b[99Arewritten\x1b[K\x1b[99B${lines(20_000, 20_010)}`)
    await run.room.rest()
    for (const event of run.room.told.slice(told)) late(event)
    await finish(run)
    const whole = await wholeText(run.room, run.id, 0)
    const output = record.output(0)
    if (output?.output_type !== 'stream' || typeof output.text === 'string') throw new Error('no long text')
    expect(record.exact).toBe(true)
    expect(output.text.chars).toBe(whole.length)
    expect(output.text.size).toBe(Buffer.byteLength(whole))
    expect(whole.startsWith(output.text.head)).toBe(true)
    expect(whole.endsWith(output.text.tail)).toBe(true)
    expect(output.text.tail).toContain('rewritten')
  })

  test('what is shown of an execution is the newest of its cell, also after a restart', async () => {
    const room = new TestRoom()
    rooms.push(room)
    const cell = room.addCell('x')
    const first = await room.run(cell)
    await room.rest()
    room.present?.begin(first)
    room.present?.end(first)
    await room.rest()
    const second = await room.run(cell)
    expect(room.executions.ofCell(cell)?.execution_id).toBe(second)
    const next = room.crash()
    rooms.push(next)
    expect(next.executions.ofCell(cell)?.execution_id).toBe(second)
    expect(next.executions.list(10).map((execution) => execution.execution_id)).toEqual([second, first])
  })

  test('clear_outputs takes executions off their cells, but not those that are not over', async () => {
    const run = await running()
    const { room, kernel, id } = run
    const [cell] = room.codeCells()
    if (!cell) throw new Error('no cell')
    expect(room.executions.clearOutputs(undefined).cellIds).toEqual([])
    kernel.end(id)
    await room.rest()
    const cleared = room.executions.clearOutputs([cell])
    await room.commit({ statements: cleared.statements, events: cleared.events })
    expect(room.executions.ofCell(cell)).toBeUndefined()
    expect(room.executions.outputMark(cell)).toBe('none')
    expect(room.executions.get(id)?.status).toBe('done')
    room.executions.trim()
    expect(room.executions.ofCell(cell)).toBeUndefined()
  })

  test('the mark of a cell changes with what it shows', async () => {
    const run = await running()
    const [cell] = run.room.codeCells()
    if (!cell) throw new Error('no cell')
    const marks = new Set([run.room.executions.outputMark(cell)])
    run.kernel.display(run.id, { 'text/plain': 'x' }, 'd')
    await run.room.rest()
    marks.add(run.room.executions.outputMark(cell))
    await finish(run)
    marks.add(run.room.executions.outputMark(cell))
    run.kernel.display(run.id, { 'text/plain': 'y' }, 'd', 'update_display_data')
    await run.room.rest()
    marks.add(run.room.executions.outputMark(cell))
    expect(marks.size).toBe(4)
  })
})
