/**
 * Cells of files before format 4 (worksheets, prompts, heading cells) as format 4 has them, so that they can be shown, and written
 * when the user wants them converted (upgrade.ts); and of formats after it, as far as they look like 4. What becomes what is what
 * Jupyter's own nbformat does.
 */
import type { Output } from '../../../protocol/notebook.ts'
import { wellFormed } from '../layout.ts'
import { identify } from './cell-ids.ts'
import { joinLines, splitLines } from './lines.ts'
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
  const cells = cellValues(file).map((cell) =>
    file.nbformat <= 2 ? { ...cell, value: withLineEnds(cell.value) } : cell,
  )
  const read = cells.map(({ value, at }) => {
    const text = joinLines(value.input ?? value.code ?? value.source ?? value.text ?? '')
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
      metadata: {
        ...(isRecord(value.metadata) ? value.metadata : {}),
        ...(type === 'code' && value.collapsed !== undefined ? { collapsed: value.collapsed } : {}),
      },
      outputs,
      execution_count: countOf(value.prompt_number ?? value.execution_count),
      own_id: null,
    }
  })
}

/** Up to format 2 the lines of a list have no ends. */
function withLineEnds(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => {
      if (key === 'outputs' && Array.isArray(part))
        return [key, part.map((output: unknown) => (isRecord(output) ? withLineEnds(output) : output))]
      const lines =
        key !== 'traceback' && Array.isArray(part) && part.every((line) => typeof line === 'string')
      return [key, lines ? part.join('\n') : part]
    }),
  )
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
  // A heading is one line.
  const line = splitLines(source).map((part) =>
    part.replace(/(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])$/, ''),
  )
  return `${'#'.repeat(level)} ${line.join(' ')}`
}

function oldOutput(raw: unknown): Output | null {
  if (!isRecord(raw)) return null
  switch (raw.output_type) {
    case 'pyout':
    case 'display_data':
    case 'execute_result': {
      const found = isRecord(raw.data) ? raw.data : shortNamed(raw)
      const bundle = {
        data: jsonParsed(joinBundle(found)),
        metadata: isRecord(raw.metadata) ? longNamed(raw.metadata) : {},
      }
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

/** Members of the output itself; all others are its data. */
const OWN = ['output_type', 'metadata', 'prompt_number', 'execution_count', 'stream', 'name']

function shortNamed(raw: Record<string, unknown>): Record<string, unknown> {
  const data = Object.entries(raw).filter(([key]) => !OWN.includes(key))
  return longNamed(Object.fromEntries(data.map(([key, value]) => [key, joinLines(value) ?? value])))
}

function longNamed(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [mimes[key] ?? key, value]))
}

/** Before format 4 JSON was a text. */
function jsonParsed(data: Record<string, unknown>): Record<string, unknown> {
  const value = joinLines(data['application/json'])
  if (value === null) return data
  try {
    return { ...data, 'application/json': JSON.parse(value) as unknown }
  } catch {
    // Not JSON after all: a text is JSON, too.
    return data
  }
}
