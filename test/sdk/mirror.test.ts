/** The mirror against a model: whatever happens in a room, and however it is told, both end equal. */
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  charsOf,
  commonStart,
  KEPT_HEAD,
  spliceText,
  utf8Size,
  WHOLE_TEXT_MAX,
} from '../../client/sdk/long-text.ts'
import { Mirror } from '../../client/sdk/mirror.ts'
import { sourceHash } from '../../client/sdk/mirror-cells.ts'
import { streamOutputs } from '../../client/sdk/output-stream.ts'
import type { DurableEvent, RoomEvent } from '../../protocol/events.ts'
import type { CellId, ExecutionId } from '../../protocol/ids.ts'
import { type Cell, type ExecutionSummary, isTerminal, type Output } from '../../protocol/notebook.ts'
import { execution } from './fixture.ts'
import { openedOf } from './scripted-daemon.ts'

/** A room as a daemon would keep it, with its full history. */
class Model {
  cells: { cell_id: string; source: string; metadata: Record<string, unknown> }[] = []
  shown = new Map<string, ExecutionId>()
  executions = new Map<ExecutionId, { summary: ExecutionSummary; outputs: Output[] }>()
  docSeq = 0
  durable: DurableEvent[] = []
  #names = 0

  /** Does something by a number and returns how it is told; null: nothing to do that way now. */
  step(choice: number, at: number, text: string): { seq?: number; event: RoomEvent } | null {
    const cell = this.cells[at % Math.max(1, this.cells.length)]
    const open = [...this.executions.values()].filter(({ summary }) => !isTerminal(summary.status))
    const run = open[at % Math.max(1, open.length)]
    switch (choice) {
      case 0: {
        const cell_id = `c${this.#names++}`
        const position = at % (this.cells.length + 1)
        const made = { cell_id: cell_id as CellId, cell_type: 'code', source: text, metadata: {} }
        this.cells.splice(position, 0, made)
        return this.#edit([...(position ? [{ retain: position }] : []), { insert: [made] }])
      }
      case 1: {
        if (!cell) return null
        const position = this.cells.indexOf(cell)
        this.cells.splice(position, 1)
        return this.#edit([...(position ? [{ retain: position }] : []), { delete: 1 }])
      }
      case 2: {
        if (!cell) return null
        const from = at % (cell.source.length + 1)
        const gone = Math.min(2, cell.source.length - from)
        cell.source = cell.source.slice(0, from) + text + cell.source.slice(from + gone)
        const delta = [
          ...(from ? [{ retain: from }] : []),
          { insert: text },
          ...(gone ? [{ delete: gone }] : []),
        ]
        return this.#edit([], [{ cell_id: cell.cell_id as CellId, source: delta }])
      }
      case 3: {
        // A move, as Yjs tells it: the same cell deleted here and inserted there.
        if (!cell || this.cells.length < 2) return null
        this.cells.splice(this.cells.indexOf(cell), 1)
        const before = [...this.cells]
        this.cells.push(cell)
        return this.#move(cell.cell_id, before)
      }
      case 4: {
        if (!cell) return null
        const summary = execution(this.#names++, { cell_id: cell.cell_id as CellId })
        this.shown.set(cell.cell_id, summary.execution_id)
        this.executions.set(summary.execution_id, { summary, outputs: [] })
        return this.#tell({ type: 'execution_queued', execution: summary })
      }
      case 5: {
        if (run?.summary.status !== 'queued') return null
        run.summary = { ...run.summary, status: 'running', started_at: 5 }
        return this.#tell({ type: 'execution_started', execution: run.summary })
      }
      case 6: {
        if (run?.summary.status !== 'running') return null
        const index = run.outputs.length
        const output: Output =
          at % 2
            ? { output_type: 'stream', name: 'stdout', text }
            : { output_type: 'display_data', data: { 'text/plain': text }, metadata: {} }
        run.outputs.push(output)
        return this.#tell({ type: 'output', execution_id: run.summary.execution_id, index, output })
      }
      case 7: {
        const index = run?.outputs.findIndex((output) => output.output_type === 'stream') ?? -1
        const output = run?.outputs[index]
        if (!run || output?.output_type !== 'stream' || typeof output.text !== 'string') return null
        const from = at % 3 ? output.text.length : at % (output.text.length + 1)
        run.outputs[index] = { ...output, text: output.text.slice(0, from) + text }
        const { execution_id } = run.summary
        return this.#tell({ type: 'output_splice', execution_id, index, from, text })
      }
      case 8: {
        if (run?.summary.status !== 'running') return null
        if (at % 3 === 0) {
          run.outputs = []
          return this.#tell({ type: 'outputs_cleared', execution_id: run.summary.execution_id })
        }
        run.summary = { ...run.summary, status: 'done', finished_at: 9 }
        return this.#tell({ type: 'execution_finished', execution: run.summary })
      }
      default: {
        if (!cell) return null
        const shown = this.executions.get(this.shown.get(cell.cell_id) as ExecutionId)
        if (shown && !isTerminal(shown.summary.status)) return null
        this.shown.delete(cell.cell_id)
        return this.#tell({ type: 'cells_cleared', cell_ids: [cell.cell_id as CellId] })
      }
    }
  }

  /** As a fresh page says it: no outputs of what goes on. */
  page(): Cell[] {
    return this.cells.map((cell) => {
      const shown = this.executions.get(this.shown.get(cell.cell_id) as ExecutionId)
      return {
        ...cell,
        cell_id: cell.cell_id as CellId,
        cell_type: 'code',
        source_hash: createHash('sha256').update(cell.source).digest('hex').slice(0, 16),
        ...(shown ? { execution: shown.summary } : {}),
        outputs: shown && isTerminal(shown.summary.status) ? [...shown.outputs] : [],
      }
    })
  }

  /** As it is. */
  truth(): Cell[] {
    return this.page().map((cell) => ({
      ...cell,
      outputs: cell.execution ? [...(this.executions.get(cell.execution.execution_id)?.outputs ?? [])] : [],
    }))
  }

  get open(): ExecutionSummary[] {
    return [...this.executions.values()]
      .map(({ summary }) => summary)
      .filter(({ status }) => !isTerminal(status))
  }

  #tell(event: DurableEvent) {
    this.durable.push(event)
    return { seq: this.durable.length, event }
  }

  #edit(delta: object[], changes: object[] = []): { event: RoomEvent } {
    this.docSeq++
    return { event: { type: 'cells', doc_seq: this.docSeq, by: 'x', delta, changes } as RoomEvent }
  }

  #move(cellId: string, others: { cell_id: string }[]): { event: RoomEvent } {
    const cell = this.cells.find((one) => one.cell_id === cellId)
    const delta = [{ delete: others.length + 1 }, { insert: [...others, { ...cell }].map(asDocument) }]
    return this.#edit(delta)
  }
}

const asDocument = (cell: object) => ({ cell_type: 'code', metadata: {}, ...cell })

const steps = fc.array(
  fc.tuple(fc.nat(9), fc.nat(50), fc.string({ unit: 'binary', maxLength: 4 }), fc.nat(20)),
  { maxLength: 60 },
)

function show(mirror: Mirror, model: Model): void {
  const event_seq = model.durable.length
  const [running, ...rest] = [...model.open].sort(
    (a, b) => Number(b.status === 'running') - Number(a.status === 'running'),
  )
  const queued = running?.status === 'running' ? rest : model.open
  mirror.begin(
    openedOf({
      doc_seq: model.docSeq,
      event_seq,
      running: running?.status === 'running' ? running : null,
      queued,
      queued_total: queued.length,
    }),
  )
  const cells = model.page()
  const half = Math.floor(cells.length / 2)
  const page = { kind: 'cells' as const, total: cells.length, doc_seq: model.docSeq, event_seq }
  if (half > 0) mirror.page({ ...page, start: 0, cells: cells.slice(0, half), last: false })
  mirror.page({ ...page, start: half, cells: cells.slice(half), last: true })
  for (const { execution_id } of model.open) {
    const outputs = model.executions.get(execution_id)?.outputs ?? []
    outputs.forEach((output, index) => {
      const events: DurableEvent[] = [{ type: 'output', execution_id, index, output }]
      mirror.replay({ kind: 'replay', execution_id, events, last: index === outputs.length - 1 })
    })
  }
}

test('pages, deltas and events, repeated at will, leave the mirror equal to the room', () => {
  fc.assert(
    fc.property(steps, fc.nat(60), (script, joinAt) => {
      const model = new Model()
      const mirror = new Mirror()
      show(mirror, model)
      script.forEach(([choice, at, text, twist], i) => {
        const told = model.step(choice, at, text)
        if (told) {
          expect(mirror.event(told.seq, told.event)).toBe('applied')
          // Whatever comes twice changes nothing.
          if (twist === 0) expect(mirror.event(told.seq, told.event)).toBe('repeated')
        }
        // The daemon shows everything afresh, as after a gap.
        if (i === joinAt || twist === 1) {
          mirror.event(undefined, { type: 'gap', from: 1, to: model.durable.length, reason: 'x' })
          show(mirror, model)
        }
        if (twist === 2) expect(mirror.cells).toEqual(model.truth())
      })
      expect(mirror.cells).toEqual(model.truth())
      expect(mirror.docSeq).toBe(model.docSeq)
      expect(mirror.eventSeq).toBe(model.durable.length)
      expect(mirror.unsettled()).toEqual([])
      expect(new Set(mirror.open.map((one) => one.execution_id))).toEqual(
        new Set(model.open.map((one) => one.execution_id)),
      )
    }),
    { numRuns: 300 },
  )
})

test('after an absence, missed events and fresh pages leave the mirror equal to the room', () => {
  fc.assert(
    fc.property(steps, fc.nat(60), fc.nat(60), (script, leaveAt, backAfter) => {
      const model = new Model()
      const mirror = new Mirror()
      show(mirror, model)
      script.forEach(([choice, at, text], i) => {
        const told = model.step(choice, at, text)
        const away = i >= leaveAt && i < leaveAt + backAfter
        if (told && !away) expect(mirror.event(told.seq, told.event)).toBe('applied')
        if (i === leaveAt + backAfter - 1) resume(mirror, model)
      })
      resume(mirror, model)
      expect(mirror.loading).toBe(false)
      expect(mirror.cells).toEqual(model.truth())
      expect(mirror.eventSeq).toBe(model.durable.length)
    }),
    { numRuns: 200 },
  )
})

function resume(mirror: Mirror, model: Model): void {
  const since = mirror.eventSeq
  const event_seq = model.durable.length
  const pages = mirror.docSeq !== model.docSeq
  const picture = since === event_seq ? 'current' : 'events'
  mirror.begin(openedOf({ doc_seq: model.docSeq, event_seq, pages, picture }))
  model.durable.slice(since).forEach((event, i) => {
    expect(mirror.event(since + i + 1, event)).toBe('applied')
  })
  if (!pages) return
  const cells = model.page()
  const page = { kind: 'cells' as const, start: 0, total: cells.length, last: true }
  mirror.page({ ...page, cells, doc_seq: model.docSeq, event_seq })
}

test('a hole, and a delta that does not fit, are missed and change nothing', () => {
  const mirror = new Mirror()
  show(mirror, new Model())
  expect(mirror.event(2, { type: 'cells_cleared', cell_ids: [] })).toBe('missed')
  const cells = { type: 'cells' as const, by: 'x', changes: [] }
  expect(mirror.event(undefined, { ...cells, doc_seq: 2, delta: [] })).toBe('missed')
  expect(mirror.event(undefined, { ...cells, doc_seq: 1, delta: [{ delete: 1 }] })).toBe('missed')
  expect([mirror.eventSeq, mirror.docSeq, mirror.cells]).toEqual([0, 0, []])
})

test('cells handed out never change', () => {
  const model = new Model()
  const mirror = new Mirror()
  show(mirror, model)
  const tell = (told: ReturnType<Model['step']>) => told && mirror.event(told.seq, told.event)
  tell(model.step(0, 0, 'one'))
  tell(model.step(4, 0, ''))
  const before = mirror.cells
  const copy = structuredClone(before)
  tell(model.step(5, 0, ''))
  tell(model.step(6, 1, 'text'))
  tell(model.step(2, 0, 'two'))
  expect(before).toEqual(copy)
  expect(mirror.cells).not.toEqual(copy)
})

test('a source hash is what the daemon computes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (source) => {
      expect(sourceHash(source)).toBe(createHash('sha256').update(source, 'utf8').digest('hex').slice(0, 16))
    }),
  )
})

describe('long text', () => {
  const pieces = fc.array(
    fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 40 }), fc.constantFrom('x', 'é', '\u{1F600}', '\n')),
    {
      minLength: 5,
      maxLength: 40,
    },
  )

  test('head, tail, length and size stay right through appends and cuts near the end', () => {
    fc.assert(
      fc.property(pieces, (script) => {
        let whole = ''
        let text: Parameters<typeof spliceText>[0] = ''
        for (const [back, count, letter] of script) {
          const added = letter.repeat(count * 1024)
          const from = Math.max(0, whole.length - back * 2)
          const spliced = spliceText(text, from, added)
          expect(spliced.exact).toBe(true)
          text = spliced.text
          whole = whole.slice(0, from) + added
        }
        expect(charsOf(text)).toBe(whole.length)
        if (typeof text === 'string') expect(text).toBe(whole)
        else {
          expect(whole.length).toBeGreaterThan(WHOLE_TEXT_MAX)
          expect(whole.startsWith(text.head)).toBe(true)
          expect(text.head.length).toBeGreaterThanOrEqual(KEPT_HEAD)
          expect(whole.endsWith(text.tail)).toBe(true)
          expect(text.size).toBe(Buffer.byteLength(whole))
        }
      }),
      { numRuns: 50 },
    )
  })

  test('a cut in the part that is not kept is said', () => {
    const { text } = spliceText('', 0, 'x'.repeat(WHOLE_TEXT_MAX + 1))
    const cut = spliceText(text, 100_000, 'new')
    expect(cut).toMatchObject({ exact: false, text: { chars: 100_003, tail: 'new' } })
    expect(spliceText(text, 10, 'new')).toEqual({ exact: true, text: 'xxxxxxxxxxnew' })
    expect(() => spliceText('abc', 4, '')).toThrow(RangeError)
  })

  test('utf8Size is the size in bytes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(utf8Size(text)).toBe(Buffer.byteLength(text))
      }),
    )
  })

  test('commonStart finds the first difference that can be seen', () => {
    expect(commonStart('abc', 'abd')).toBe(2)
    expect(commonStart('abc', 'abcdef')).toBe(3)
    const long = { head: 'ab', tail: 'yz', chars: 10, size: 10 }
    expect(commonStart('ab------yz', long)).toBe(10)
    expect(commonStart('ab------xz', long)).toBe(8)
    expect(commonStart('aX------yz', long)).toBe(1)
  })
})

test('reading a run at any pace shows on a terminal what the text is', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.tuple(fc.nat(4), fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 6 }), fc.boolean()),
        {
          maxLength: 30,
        },
      ),
      async (script) => {
        const mirror = new Mirror()
        show(mirror, new Model())
        const running = execution(1, { status: 'running' })
        mirror.event(1, { type: 'execution_started', execution: running })
        const record = mirror.record(running.execution_id)
        if (!record) throw new Error('no record')
        const terminal = new Terminal()
        const stream = streamOutputs(record, async () => {
          throw new Error('nothing is long here')
        })
        let reading: Promise<void> | null = null
        const read = () => {
          reading = stream.next().then(({ value }) => {
            if (value && value.output_type === 'stream' && typeof value.text === 'string')
              terminal.write(value.text)
            reading = null
          })
        }
        record.put(0, { output_type: 'stream', name: 'stdout', text: '' })
        let text = ''
        for (const [back, added, pause] of script) {
          const from = Math.max(0, text.length - back)
          text = text.slice(0, from) + added
          record.splice(0, from, added)
          if (!reading && pause) read()
          if (pause) await new Promise((resolve) => setImmediate(resolve))
        }
        record.update({ ...running, status: 'done' })
        while (reading) await reading
        for await (const output of stream)
          if (output.output_type === 'stream' && typeof output.text === 'string') terminal.write(output.text)
        expect(terminal.text).toBe(text)
      },
    ),
    { numRuns: 100 },
  )
})

/** Enough of a terminal: lines, carriage return, up, erase below. */
class Terminal {
  #lines = ['']
  #row = 0
  #column = 0
  get text(): string {
    return this.#lines.join('\n')
  }
  write(text: string): void {
    for (const [token, up] of text.matchAll(/\u001b\[(\d+)A|\u001b\[J|[\s\S]/g)) {
      if (up !== undefined) this.#row -= Number(up)
      else if (token === '\u001b[J') {
        this.#lines.length = this.#row + 1
        this.#lines[this.#row] = (this.#lines[this.#row] ?? '').slice(0, this.#column)
      } else if (token === '\r') this.#column = 0
      else if (token === '\n') {
        this.#row++
        this.#column = 0
        this.#lines[this.#row] ??= ''
      } else {
        const line = this.#lines[this.#row] ?? ''
        this.#lines[this.#row] = line.slice(0, this.#column) + token + line.slice(this.#column + 1)
        this.#column++
      }
    }
  }
}
