import { describe, expect, test } from 'vitest'
import { readNotebook } from '../../daemon/documents/ipynb/read.ts'
import type { CellSeed } from '../../daemon/documents/layout.ts'
import { alignCells } from '../../daemon/documents/merge/align.ts'
import { mergeFile } from '../../daemon/documents/merge/merge-file.ts'
import type { MergePlan, SourceConflict } from '../../daemon/documents/merge/merge-notebook.ts'
import { mergeText } from '../../daemon/documents/merge/merge-text.ts'
import { bytes, mergeTriples } from './fixtures.ts'
import { id } from './mirror.ts'

interface Cell {
  readonly id?: string
  readonly source: string
  readonly type?: string
  readonly metadata?: Record<string, unknown>
  readonly outputs?: readonly object[]
}

/** A file of format 4.5 where its cells have ids, else 4.4. `a: text` is a code cell with an id. */
function file(cells: readonly (string | Cell)[], metadata: object = {}): Uint8Array {
  const whole = cells.map((cell): Cell => {
    if (typeof cell !== 'string') return cell
    const match = /^(\w+): ([\s\S]*)$/.exec(cell)
    return match?.[1] ? { id: match[1], source: match[2] ?? '' } : { source: cell }
  })
  return bytes(
    JSON.stringify({
      cells: whole.map(({ id, source, type = 'code', metadata = {}, outputs = [] }) => ({
        ...(id === undefined ? {} : { id }),
        cell_type: type,
        metadata,
        source,
        ...(type === 'code' ? { outputs, execution_count: null } : {}),
      })),
      metadata,
      nbformat: 4,
      nbformat_minor: whole.every((cell) => cell.id !== undefined) ? 5 : 4,
    }),
  )
}

/** The merge as a room would do it whose content is `room`, which began as `base`. */
function merge(
  base: Uint8Array,
  room: Uint8Array,
  disk: Uint8Array,
  open: readonly SourceConflict[] = [],
): { plan: MergePlan; cells: CellSeed[] } {
  const before = readNotebook(base, 'base')
  const now = readNotebook(room, 'room')
  const matched = alignCells(before.cells, now.cells)
  const cells = now.cells.map(
    ({ outputs: _o, execution_count: _c, own_id, ...cell }, index): CellSeed => ({
      ...cell,
      cell_id:
        own_id === null ? (before.cells[matched[index] ?? -1]?.cell_id ?? id(`room-${index}`)) : cell.cell_id,
    }),
  )
  const { plan } = mergeFile({ path: 'x', base, base_ids: null, disk, metadata: now.metadata, cells, open })
  return { plan, cells: after(cells, plan) }
}

/** The room's cells after the plan. */
function after(cells: readonly CellSeed[], plan: MergePlan): CellSeed[] {
  const known = new Map([...cells, ...plan.created].map((cell) => [cell.cell_id, cell]))
  for (const { attachments, ...change } of plan.changed) {
    const cell = known.get(change.cell_id)
    if (cell) known.set(change.cell_id, { ...cell, ...change, ...(attachments ? { attachments } : {}) })
  }
  return plan.order.flatMap((cell_id) => known.get(cell_id) ?? [])
}

const sources = (cells: readonly CellSeed[]): string[] => cells.map(({ source }) => source)

describe('texts', () => {
  test.each([
    ['only the file changed', 'a\nb', 'a\nb', 'a\nB', 'a\nB'],
    ['only the room changed', 'a\nb', 'A\nb', 'a\nb', 'A\nb'],
    ['both changed the same', 'a', 'x', 'x', 'x'],
    ['lines apart', 'a\nb\nc', 'A\nb\nc', 'a\nb\nC', 'A\nb\nC'],
    ['a line in front, a line at the end of a text without a last newline', 'a', 'x\na', 'a\nb', 'x\na\nb'],
  ])('%s', (_, base, room, disk, merged) => {
    expect(mergeText(base, room, disk)).toEqual({ merged })
  })

  test('the same line in different ways is a conflict, and so is a lines beside another', () => {
    expect(mergeText('a\nb', 'a\nx', 'a\ny')).toEqual({ conflict: true })
    expect(mergeText('a\nb', 'A\nb', 'a\nB')).toEqual({ conflict: true })
  })
})

describe('cells with ids', () => {
  const base = file(['a: 1', 'b: 2', 'c: 3'])

  test('what only the file changed is taken: texts, order, new and removed cells', () => {
    const { plan, cells } = merge(base, base, file(['c: 3', 'n: new', 'a: 1 changed']))
    expect(cells.map((cell) => `${cell.cell_id}: ${cell.source}`)).toEqual(['c: 3', 'n: new', 'a: 1 changed'])
    expect(plan).toMatchObject({ conflicts: [], deleted: ['b'], room_clean: true })
  })

  test('what only the room changed stays', () => {
    const { plan, cells } = merge(base, file(['a: 1', 'x: mine', 'c: 3 mine']), base)
    expect(sources(cells)).toEqual(['1', 'mine', '3 mine'])
    expect(plan).toMatchObject({ conflicts: [], changed: [], created: [], room_clean: false })
  })

  test('both sides: each one its own cells', () => {
    const { plan, cells } = merge(
      base,
      file(['a: 1 mine', 'm: new here', 'b: 2', 'c: 3']),
      file(['a: 1', 'b: 2', 'd: new there', 'c: 3 theirs']),
    )
    expect(sources(cells)).toEqual(['1 mine', 'new here', '2', 'new there', '3 theirs'])
    expect(plan.conflicts).toEqual([])
  })

  test('the side that moved cells gives the order, and the other side’s new cells follow their neighbour', () => {
    const { cells } = merge(base, file(['a: 1', 'm: mine', 'b: 2', 'c: 3']), file(['c: 3', 'b: 2', 'a: 1']))
    expect(sources(cells)).toEqual(['3', '2', '1', 'mine'])
  })

  test('one cell in different ways: the room keeps its own, and all three are told', () => {
    const { plan, cells } = merge(
      base,
      file(['a: mine', 'b: 2', 'c: 3']),
      file(['a: theirs', 'b: 2', 'c: 4']),
    )
    expect(sources(cells)).toEqual(['mine', '2', '4'])
    expect(plan.conflicts).toEqual([{ cell_id: 'a', base: '1', disk: 'theirs' }])
  })

  test('a cell that one side deleted and the other changed is a conflict; one that nobody changed goes', () => {
    const here = merge(base, file(['b: 2', 'c: 3 mine']), file(['a: theirs', 'b: 2']))
    expect(here.plan.conflicts).toEqual([
      { cell_id: 'a', base: '1', disk: 'theirs' },
      { cell_id: 'c', base: '3', disk: null },
    ])
    expect(sources(here.cells)).toEqual(['2', '3 mine'])
    const quiet = merge(base, file(['b: 2', 'c: 3']), file(['a: 1', 'b: 2']))
    expect(quiet.plan.conflicts).toEqual([])
    expect(sources(quiet.cells)).toEqual(['2'])
  })

  test('an open conflict is judged by the text that it began with, however often the file changes', () => {
    const first = file(['a: theirs', 'b: 2', 'c: 3'])
    const open = [{ cell_id: id('a'), base: '1', disk: 'theirs' }]
    const room = file(['a: mine', 'b: 2', 'c: 3'])
    expect(merge(first, room, file(['a: theirs again', 'b: 2', 'c: 3']), open).plan.conflicts).toEqual([
      { cell_id: 'a', base: '1', disk: 'theirs again' },
    ])
    expect(merge(first, room, file(['a: theirs', 'b: 2', 'c: 9']), open).plan.conflicts).toEqual(open)
    // The file came round to what the room has, or went back to where both began.
    expect(merge(first, room, file(['a: mine', 'b: 2', 'c: 3']), open).plan.conflicts).toEqual([])
    expect(merge(first, room, file(['a: 1', 'b: 2', 'c: 3']), open).plan.conflicts).toEqual([])
  })

  test('a conflict over a cell that the file dropped stays while other things change', () => {
    const dropped = file(['b: 2'])
    const open = [{ cell_id: id('a'), base: '1', disk: null }]
    const { plan, cells } = merge(dropped, file(['a: mine', 'b: 2']), file(['b: 22']), open)
    expect(plan.conflicts).toEqual(open)
    expect(sources(cells)).toEqual(['mine', '22'])
  })

  test('metadata is merged key by key; where both changed one the room’s stays and the place is told', () => {
    const of = (metadata: object, own: Record<string, unknown>) =>
      file([{ id: 'a', source: '1', metadata: own }], metadata)
    const { plan } = merge(
      of({ kernelspec: { name: 'x' }, k: 1 }, { tags: ['t'], deep: { a: 1, b: 1 } }),
      of({ kernelspec: { name: 'x' }, k: 2 }, { tags: ['t'], deep: { a: 2, b: 1 } }),
      of({ kernelspec: { name: 'y' }, k: 3 }, { deep: { a: 1, b: 2 }, more: true }),
    )
    expect(plan.metadata).toEqual({ kernelspec: { name: 'y' }, k: 2 })
    expect(plan.changed).toEqual([{ cell_id: 'a', metadata: { deep: { a: 2, b: 2 }, more: true } }])
    expect(plan.dropped).toEqual(['metadata.k'])
  })

  test('the same cell made by both is one cell; the same id with different texts is a conflict', () => {
    const both = merge(
      base,
      file(['a: 1', 'b: 2', 'c: 3', 'x: same']),
      file(['a: 1', 'b: 2', 'c: 3', 'y: same']),
    )
    expect(sources(both.cells)).toEqual(['1', '2', '3', 'same'])
    const clash = merge(
      base,
      file(['a: 1', 'b: 2', 'c: 3', 'x: one']),
      file(['a: 1', 'b: 2', 'c: 3', 'x: two']),
    )
    expect(clash.plan.conflicts).toEqual([{ cell_id: 'x', base: null, disk: 'two' }])
  })

  test('a type that is not known is taken as it is', () => {
    const { cells } = merge(
      base,
      base,
      file(['a: 1', 'b: 2', 'c: 3', { id: 'w', source: 'W', type: 'widget' }]),
    )
    expect(cells.at(-1)).toMatchObject({ cell_type: 'widget', source: 'W' })
  })

  test('outputs that the file changed are named with what they were', () => {
    const text = (value: string) => [{ output_type: 'stream', name: 'stdout', text: value }]
    const of = (outputs: object[]) => file([{ id: 'a', source: '1', outputs }])
    const { plan } = merge(of(text('old')), of(text('old')), of(text('new')))
    expect(plan.outputs).toMatchObject([
      { cell_id: 'a', outputs: text('new'), before: { outputs: text('old'), execution_count: null } },
    ])
  })
})

describe('cells without ids', () => {
  const base = file(['import numpy as np', 'x = np.arange(10)\nprint(x)', 'x = 3', 'plot(x)'])

  test('an edited cell is known by what is left of it, a moved one by its text', () => {
    const { plan, cells } = merge(
      base,
      base,
      file(['plot(x)', 'import numpy as np', 'x = np.arange(20)\nprint(x)', 'x = 3']),
    )
    expect(plan).toMatchObject({ created: [], deleted: [], conflicts: [] })
    expect(plan.changed).toHaveLength(1)
    expect(sources(cells)).toEqual(['plot(x)', 'import numpy as np', 'x = np.arange(20)\nprint(x)', 'x = 3'])
  })

  test('an inserted and an edited cell beside each other are told apart', () => {
    const { plan, cells } = merge(
      base,
      base,
      file([
        'import numpy as np',
        'something else entirely',
        'x = np.arange(10)\nprint(x, flush=True)',
        'x = 3',
        'plot(x)',
      ]),
    )
    expect(plan.created).toHaveLength(1)
    expect(plan.changed).toHaveLength(1)
    expect(sources(cells)[1]).toBe('something else entirely')
  })

  test('a program that gave all cells new ids changed none of them', () => {
    const { plan } = merge(file(['a: one', 'b: two']), file(['a: one', 'b: two']), file(['k: one', 'l: two']))
    expect(plan).toMatchObject({ created: [], deleted: [], changed: [], disk_ids: ['a', 'b'] })
  })

  test('equal cells, many of them empty, keep their number', () => {
    const many = file(['', 'x', '', 'x', ''])
    const { cells } = merge(many, many, file(['', '', 'x', '', 'x', '', 'x']))
    expect(sources(cells)).toEqual(['', '', 'x', '', 'x', '', 'x'])
  })
})

const triples = mergeTriples()
describe.skipIf(triples.length === 0)('real triples', () => {
  const conflicts = (name: string): string[] => {
    const triple = triples.find((one) => one.name === name)
    if (!triple) throw new Error(`no triple ${name}`)
    const { plan } = merge(triple.base, triple.local, triple.remote)
    return plan.conflicts.map(({ base, disk }) => `${base?.split('\n')[0]} | ${disk?.split('\n')[0]}`)
  }

  test.each(triples.map(({ name }) => name))('%s: no source of either side is dropped', (name) => {
    const triple = triples.find((one) => one.name === name)
    if (!triple) throw new Error(`no triple ${name}`)
    const { plan, cells } = merge(triple.base, triple.local, triple.remote)
    const kept = [...sources(cells), ...plan.conflicts.map(({ disk }) => disk ?? '')].join('\n')
    const base = new Set(readNotebook(triple.base, 'b').cells.flatMap(({ source }) => source.split('\n')))
    for (const side of [triple.local, triple.remote]) {
      for (const line of readNotebook(side, 's').cells.flatMap(({ source }) => source.split('\n')))
        if (!base.has(line)) expect(kept).toContain(line)
    }
  })

  test('merge where the sides changed different cells, conflict where they changed the same', () => {
    expect(conflicts('multilevel')).toEqual([])
    expect(conflicts('cellids')).toEqual([])
    expect(conflicts('inline-conflict')).toEqual(['x = 1 | x = 1'])
    expect(conflicts('source-conflict')).toEqual(['test | test 3'])
    expect(conflicts('output-conflict')).toEqual(['end = 0.5 | end = 10*pi'])
    expect(conflicts('mixed-conflicts')).toHaveLength(3)
  })
})
