/** Cells as text: one line each in lists, whole where one is asked for. */
import type { Cell } from '../../../protocol/notebook.ts'
import { counted, oneLine, shorten } from './model-text.ts'
import { gist } from './outputs.ts'

const PREVIEW = 80

/** `a1b2  code [3] done  import pandas as pd … (12 lines) → 42` */
export function cellLine(cell: Cell): string {
  const lines = cell.source === '' ? 0 : cell.source.split('\n').length
  const first = cell.source.split('\n').find((line) => line.trim() !== '') ?? ''
  const more = lines > 1 ? ` … (${lines} lines)` : ''
  const shown = gist(cell, PREVIEW)
  return [
    cell.cell_id,
    `${cell.cell_type}${stateOf(cell)}`,
    `${first === '' ? '(empty)' : oneLine(first, PREVIEW)}${more}${shown === '' ? '' : ` → ${shown}`}`,
  ].join('  ')
}

/** ` [3] done`, ` [ ] running`, ` [3] from the file`, or '' for a cell that never ran. */
function stateOf({ cell_type, execution }: Cell): string {
  if (cell_type !== 'code') return ''
  if (!execution) return ' [ ]'
  const number = execution.execution_count ?? ' '
  return ` [${number}] ${execution.origin === 'file' ? 'from the file' : execution.status}`
}

/** Heading and source of one cell; `limit` in bytes. */
export function cellText(cell: Cell, limit?: number): string {
  const heading = `cell ${cell.cell_id}: ${cell.cell_type}${stateOf(cell)}`
  const { text } = shorten(
    cell.source,
    (omitted) =>
      `${counted(omitted, 'character')} left out: get_cell {"cell_id": "${cell.cell_id}", "full_output": true}`,
    limit,
  )
  return `${heading}\n${cell.source === '' ? '(empty)' : text}`
}
