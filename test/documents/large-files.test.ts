import { describe, expect, it, onTestFinished } from 'vitest'
import { DocumentWorker } from '../../daemon/documents/document-worker.ts'
import { readNotebook } from '../../daemon/documents/ipynb/read.ts'
import { bytes, text } from './fixtures.ts'

function worker(): DocumentWorker {
  const made = new DocumentWorker('unused')
  onTestFinished(() => made.dispose())
  return made
}

function largeFile(cells: number): Uint8Array {
  return bytes(
    `${JSON.stringify(
      {
        cells: Array.from({ length: cells }, (_, i) => ({
          cell_type: 'code',
          execution_count: i,
          id: `cell-${i}`,
          metadata: {},
          outputs: [{ name: 'stdout', output_type: 'stream', text: ['x\n'.repeat(50)] }],
          source: ['# a cell\n', `print(${i})\n`, 'y'.repeat(200)],
        })),
        metadata: { language_info: { name: 'python' } },
        nbformat: 4,
        nbformat_minor: 5,
      },
      null,
      1,
    )}\n`,
  )
}

describe('large files', () => {
  it('are read by the worker with the same result', async () => {
    const file = largeFile(3000)
    expect(await worker().read(file, 'large.ipynb')).toEqual(readNotebook(file, 'large.ipynb'))
  })

  it('are written by the worker with only what changed', async () => {
    const base = largeFile(3000)
    const { cells, metadata } = readNotebook(base, 'large.ipynb')
    const change = cells.map((cell) => ({
      ...cell,
      source: cell.cell_id === 'cell-1500' ? 'changed' : cell.source,
      outputs: 'unchanged' as const,
    }))
    const written = await worker().write({ base, path: 'large.ipynb', metadata, cells: change })
    const [before, after] = [text(base), text(written.bytes)]
    const at = before.indexOf('"print(1500)')
    expect(after.slice(0, at - 100)).toBe(before.slice(0, at - 100))
    expect(after).toContain('"changed"')
    expect(after.slice(-500_000)).toBe(before.slice(-500_000))
  })

  it('that are broken are refused with the place, as small ones are', async () => {
    const broken = bytes(text(largeFile(3000)).replace('"id": "cell-2000"', '"id": cell-2000'))
    await expect(worker().read(broken, '/x/large.ipynb')).rejects.toMatchObject({
      code: 'invalid_argument',
      detail: { path: '/x/large.ipynb', at: 'cells[2000].id' },
    })
  })

  it('asked for at once are answered each', async () => {
    const one = worker()
    const files = [largeFile(1000), largeFile(1500), largeFile(900)]
    const read = await Promise.all(files.map((file, i) => one.read(file, `${i}`)))
    expect(read.map((file) => file.cells.length)).toEqual([1000, 1500, 900])
  })

  it('are refused once the worker is disposed, and what was under way is told', async () => {
    const one = worker()
    const under = one.read(largeFile(3000), 'x')
    await one.dispose()
    await expect(under).rejects.toMatchObject({ code: 'shutting_down' })
    await expect(one.read(largeFile(3000), 'x')).rejects.toMatchObject({ code: 'shutting_down' })
  })
})
