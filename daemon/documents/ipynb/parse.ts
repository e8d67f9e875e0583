/** A notebook file as text, nodes and parts: what reading and writing both start from. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { CellId } from '../../../protocol/ids.ts'
import { type Identified, identify } from './cell-ids.ts'
import { checkJson, JsonError } from './json-check.ts'
import { jsonValue, readNode, skipSpace } from './json-nodes.ts'
import { joinLines } from './lines.ts'
import { isRecord } from './outputs.ts'

const BOM = '\uFEFF'

/** One thing that is odd about a file that could be opened all the same. */
export interface FileWarning {
  /** Like `cells[3].outputs[0].data`; '' is the file as a whole. */
  readonly at: string
  readonly reason: string
}

export interface ParsedFile {
  readonly path: string
  /** Byte-order mark included. */
  readonly text: string
  /** Where the JSON begins. */
  readonly start: number
  /** NaN or Infinity occur. */
  readonly lenient: boolean
  readonly value: Readonly<Record<string, unknown>>
  readonly nbformat: number
  readonly nbformat_minor: number
  readonly warnings: FileWarning[]
}

/** A cell of a format-4 file. */
export interface ParsedCell extends Identified {
  readonly value: Readonly<Record<string, unknown>>
  /** Lines joined. */
  readonly source: string
}

/** Throws `invalid_argument` with `{path, at, reason}` as its cause. */
export function parseFile(bytes: Uint8Array, path: string): ParsedFile {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw invalidFile(path, '', 'the file is not UTF-8 text')
  }
  const hasMark = text.startsWith(BOM)
  if (text.slice(hasMark ? 1 : 0).trim() === '') throw invalidFile(path, '', 'the file is empty')
  const start = skipSpace(text, hasMark ? 1 : 0)
  const { value, lenient, odd } = parseJson(text, start, path)
  if (!isRecord(value)) throw invalidFile(path, '', 'a notebook must be a JSON object')
  const warnings: FileWarning[] = [...odd]
  if (hasMark) warnings.push({ at: '', reason: 'the file starts with a byte-order mark; it is kept' })
  if (lenient)
    warnings.push({
      at: '',
      reason: 'the file holds NaN or Infinity, which JSON does not have; they are kept',
    })
  const nbformat = versionOf(value.nbformat)
  if (nbformat === null || nbformat < 1)
    throw invalidFile(path, 'nbformat', 'expected a whole number: the version of the notebook format')
  const nbformat_minor = versionOf(value.nbformat_minor) ?? 0
  return { path, text, start, lenient, value, nbformat, nbformat_minor, warnings }
}

function versionOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
}

/** Whole numbers that may be too large for a double; also found in texts, which costs a second look and nothing else. */
const manyDigits = /[[:,\s]-?\d{16,}\s*[,\]}\s]/

function parseJson(
  text: string,
  start: number,
  path: string,
): { value: unknown; lenient: boolean; odd: readonly FileWarning[] } {
  let value: unknown
  let parsed = false
  try {
    value = JSON.parse(text.slice(start))
    parsed = true
  } catch {
    // The check below finds the place, or that it is only NaN.
  }
  if (parsed && !manyDigits.test(text)) return { value, lenient: false, odd: [] }
  try {
    const { lenient, odd } = checkJson(text, start)
    return { value: parsed ? value : jsonValue(text, readNode(text, start), lenient), lenient, odd }
  } catch (thrown) {
    if (thrown instanceof JsonError)
      throw invalidFile(path, thrown.at, `line ${thrown.line}: ${thrown.reason}`)
    throw thrown
  }
}

/**
 * Cells of a format-4 file; throws as parseFile does. `ids`: what the cells are called in the room, where that is known and not
 * what the file says; taken when there is one for each cell.
 */
export function parseCells(file: ParsedFile, ids: readonly CellId[] | null = null): ParsedCell[] {
  const { path } = file
  const list = file.value.cells
  if (list === undefined) throw invalidFile(path, 'cells', 'the list of cells is missing')
  if (!Array.isArray(list)) throw invalidFile(path, 'cells', 'expected a list of cells')
  const cells = list.map((value: unknown, index) => {
    const at = `cells[${index}]`
    if (!isRecord(value)) throw invalidFile(path, at, 'a cell must be an object')
    if (typeof value.cell_type !== 'string') throw invalidFile(path, `${at}.cell_type`, 'expected a text')
    const source = joinLines(value.source ?? '')
    if (source === null) throw invalidFile(path, `${at}.source`, 'expected a text or a list of lines')
    if (value.metadata !== undefined && !isRecord(value.metadata))
      throw invalidFile(path, `${at}.metadata`, 'expected an object')
    if (value.attachments != null && !isRecord(value.attachments))
      throw invalidFile(path, `${at}.attachments`, 'expected an object')
    if (value.outputs !== undefined && !Array.isArray(value.outputs))
      throw invalidFile(path, `${at}.outputs`, 'expected a list of outputs')
    return { id: value.id, content: `${value.cell_type}\n${source}`, value, source }
  })
  const given = ids?.length === cells.length ? ids : null
  return identify(cells).map(({ cell_id, from, of: { value, source } }, index) => ({
    cell_id: given?.[index] ?? cell_id,
    from,
    value,
    source,
  }))
}

/** Ids are part of the format from 4.5 on. */
export function hasIds(nbformat: number, minor: number): boolean {
  return nbformat > 4 || (nbformat === 4 && minor >= 5)
}

export function invalidFile(path: string, at: string, reason: string): RoomdError {
  return new RoomdError(
    'invalid_argument',
    `${path} is no notebook that can be opened: ${at === '' ? '' : `${at}: `}${reason}; the file was left as it is`,
    { cause: { path, at, reason } },
  )
}
