/** Aligned tables. On a terminal the one `flexible` column is cut so that a row is one line; elsewhere nothing is cut. */
import type { Style, Terminal } from '../terminal.ts'
import { cutTo, widthOf } from './width.ts'

export interface Column<Row> {
  readonly title: string
  readonly value: (row: Row) => string
  readonly align?: 'left' | 'right'
  /** Gives way when the terminal is too narrow; cut at its start (paths) or its end (texts). */
  readonly flexible?: 'start' | 'end'
  readonly style?: (row: Row) => Style | undefined
}

const gap = '  '
/** A flexible column never gets narrower than this. */
const narrowest = 12

/** Writes the table, header first. Control characters in values are shown as a space, so that a row stays a row. */
export function printTable<Row>(
  terminal: Terminal,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
): void {
  const texts = rows.map((row) => columns.map((column) => column.value(row).replace(/\p{Cc}+/gu, ' ')))
  const widths = columns.map((column, i) =>
    Math.max(widthOf(column.title), ...texts.map((line) => widthOf(line[i] ?? ''))),
  )
  const total = widths.reduce((sum, width) => sum + width, 0) + gap.length * (columns.length - 1)
  const flexible = columns.findIndex((column) => column.flexible)
  if (flexible >= 0 && total > terminal.columns) {
    widths[flexible] = Math.max(narrowest, (widths[flexible] ?? 0) - (total - terminal.columns))
  }
  const print = (line: readonly string[], style: (i: number) => Style | undefined) => {
    const cells = line.map((text, i) => {
      const column = columns[i]
      const width = widths[i] ?? 0
      const shown = column?.flexible ? cutTo(text, width, column.flexible) : text
      const space = ' '.repeat(Math.max(0, width - widthOf(shown)))
      const wanted = style(i)
      const painted = wanted ? terminal.paint(wanted, shown) : shown
      if (column?.align === 'right') return space + painted
      return i === line.length - 1 ? painted : painted + space
    })
    terminal.line(cells.join(gap).trimEnd())
  }
  print(
    columns.map((column) => column.title),
    () => 'dim',
  )
  rows.forEach((row, r) => {
    print(texts[r] ?? [], (i) => columns[i]?.style?.(row))
  })
}
