/**
 * Cells of files before format 4 (worksheets, prompts, heading cells), so that they can be shown; and of formats after it, as
 * far as they look like 4. None of these is ever written: converting is the user's decision.
 */
import type { Output } from '../../../protocol/notebook.ts'
import { wellFormed } from '../layout.ts'
import { identify } from './cell-ids.ts'
import { joinLines } from './lines.ts'
import { countOf, isRecord, joinBundle, readOutput } from './outputs.ts'
import { invalidFile, type ParsedFile } from './parse.ts'
import type { FileCell } from './read.ts'

/** Short names of formats 1 to 3 and the mime types they stand for. */
const mimes: Readonly<Record<string, string>> = {
  text: 'text/plain',
  html: 'text/html',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpeg: 'image/jpeg',
  latex: 'text/latex',
  json: 'application/json',
  javascript: 'application/javascript',
  pdf: 'application/pdf',
}

export function readOldCells(file: ParsedFile): FileCell[] {
  const cells = cellValues(file)
  const read = cells.map(({ value, at }) => {
    const text = joinLines(value.input ?? value.source ?? '')
    if (text === null) throw invalidFile(file.path, `${at}.source`, 'expected a text or a list of lines')
    return { value, at, source: headed(value, text), type: typeOf(value) }
  })
  const named = read.map((cell) => ({ ...cell, id: cell.value.id, content: `${cell.type}\n${cell.source}` }))
  return identify(named).map(({ cell_id, of: { value, at, source, type } }) => {
    const outputs: Output[] = []
    if (type === 'code' && Array.isArray(value.outputs)) {
      value.outputs.forEach((raw: unknown, number) => {
        const output = oldOutput(raw)
        if (output) outputs.push(output)
        else file.warnings.push({ at: `${at}.outputs[${number}]`, reason: 'the output cannot be shown' })
      })
    }
    return {
      cell_id,
      cell_type: type,
      source: wellFormed(source),
      metadata: isRecord(value.metadata) ? value.metadata : {},
      outputs,
      execution_count: countOf(value.prompt_number ?? value.execution_count),
      own_id: null,
    }
  })
}

function cellValues(file: ParsedFile): { value: Record<string, unknown>; at: string }[] {
  const { value: root, path } = file
  const take = (list: unknown, at: string): { value: Record<string, unknown>; at: string }[] => {
    if (!Array.isArray(list)) throw invalidFile(path, at, 'expected a list of cells')
    return list.map((value: unknown, index) => {
      if (!isRecord(value)) throw invalidFile(path, `${at}[${index}]`, 'a cell must be an object')
      return { value, at: `${at}[${index}]` }
    })
  }
  const worksheets = root.worksheets
  if (Array.isArray(worksheets)) {
    return worksheets.flatMap((sheet: unknown, index) =>
      isRecord(sheet) && sheet.cells !== undefined ? take(sheet.cells, `worksheets[${index}].cells`) : [],
    )
  }
  return take(root.cells ?? [], 'cells')
}

function typeOf(value: Record<string, unknown>): string {
  const type = String(value.cell_type ?? 'raw')
  if (type === 'heading' || type === 'html' || type === 'text') return 'markdown'
  return type
}

function headed(value: Record<string, unknown>, source: string): string {
  if (value.cell_type !== 'heading') return source
  const level = typeof value.level === 'number' ? Math.min(Math.max(value.level, 1), 6) : 1
  return `${'#'.repeat(level)} ${source}`
}

function oldOutput(raw: unknown): Output | null {
  if (!isRecord(raw)) return null
  switch (raw.output_type) {
    case 'pyout':
    case 'display_data':
    case 'execute_result': {
      const found = isRecord(raw.data) ? raw.data : shortNamed(raw)
      const bundle = { data: joinBundle(found), metadata: isRecord(raw.metadata) ? raw.metadata : {} }
      return raw.output_type === 'display_data'
        ? { output_type: 'display_data', ...bundle }
        : {
            output_type: 'execute_result',
            ...bundle,
            execution_count: countOf(raw.prompt_number ?? raw.execution_count),
          }
    }
    case 'pyerr':
      return oldOutput({ ...raw, output_type: 'error' })
    case 'stream':
      return known({ ...raw, name: raw.name ?? raw.stream })
    default:
      return known(raw)
  }
}

function known(raw: Record<string, unknown>): Output | null {
  try {
    const read = readOutput(raw, (at, reason) => {
      throw new Error(`${at}: ${reason}`)
    })
    return 'output' in read ? read.output : null
  } catch {
    // Old files are shown as well as possible; the caller reports the place.
    return null
  }
}

function shortNamed(raw: Record<string, unknown>): Record<string, unknown> {
  const data: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(raw)) {
    const mime = mimes[key] ?? (key.includes('/') ? key : null)
    if (mime) data[mime] = value
  }
  return data
}
