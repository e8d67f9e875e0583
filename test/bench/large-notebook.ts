/** A notebook of any size for benches: every cell has some code and one printed output, about 2 KB together. */

/** The text of a valid file (format 4.5) with `cells` cells; 10,000 are 20 MB. */
export function largeNotebook(cells: number): string {
  const notebook = {
    cells: Array.from({ length: cells }, (_, i) => cellOf(i)),
    metadata: {
      kernelspec: { display_name: 'JavaScript', language: 'javascript', name: 'javascript' },
      language_info: { name: 'javascript' },
    },
    nbformat: 4,
    nbformat_minor: 5,
  }
  return `${JSON.stringify(notebook, null, 1)}\n`
}

function cellOf(i: number): object {
  const id = `cell-${String(i).padStart(6, '0')}`
  if (i % 5 === 0) return { cell_type: 'markdown', id, metadata: {}, source: lines(`Section ${i}`, 30) }
  return {
    cell_type: 'code',
    execution_count: i,
    id,
    metadata: { tags: ['measured'] },
    outputs: [{ name: 'stdout', output_type: 'stream', text: lines(`${i}`, 14) }],
    source: lines(`console.log(${i}) // `, 16),
  }
}

function lines(start: string, count: number): string[] {
  return Array.from(
    { length: count },
    (_, n) => `${start} ${n}: a line of some fifty characters, more or less\n`,
  )
}
