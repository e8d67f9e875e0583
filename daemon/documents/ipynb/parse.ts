/** A notebook file as text, nodes and parts: what reading and writing both start from. */
import { RoomdError } from '../../../protocol/errors.ts'
import { CellId } from '../../../protocol/ids.ts'
import { type Identified, identify } from './cell-ids.ts'
import {
  type ArrayNode,
  JsonError,
  type JsonNode,
  jsonValue,
  memberOf,
  type ObjectNode,
  type Scanned,
  scanJson,
} from './json-scan.ts'
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
  readonly scanned: Scanned
  readonly root: ObjectNode
  readonly nbformat: number
  readonly nbformat_minor: number
  readonly warnings: FileWarning[]
}

/** Cells of a format-4 file. */
export interface ParsedCells {
  readonly list: ArrayNode
  readonly cells: readonly ParsedCell[]
}

export interface ParsedCell extends Identified {
  readonly node: ObjectNode
  readonly value: Record<string, unknown>
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
  let scanned: Scanned
  try {
    scanned = scanJson(text, hasMark ? 1 : 0)
  } catch (thrown) {
    if (thrown instanceof JsonError)
      throw invalidFile(path, thrown.at, `line ${thrown.line}: ${thrown.reason}`)
    throw thrown
  }
  const root = scanned.root
  if (root.kind !== 'object') throw invalidFile(path, '', 'a notebook must be a JSON object')
  const warnings: FileWarning[] = [...scanned.odd]
  if (hasMark) warnings.push({ at: '', reason: 'the file starts with a byte-order mark; it is kept' })
  if (scanned.lenient)
    warnings.push({
      at: '',
      reason: 'the file holds NaN or Infinity, which JSON does not have; they are kept',
    })
  const number = (key: string): number | null => {
    const member = memberOf(root, key)
    if (!member) return null
    const value = jsonValue(text, member.value, scanned.lenient)
    return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null
  }
  const nbformat = number('nbformat')
  if (nbformat === null || nbformat < 1)
    throw invalidFile(path, 'nbformat', 'expected a whole number: the version of the notebook format')
  return { path, text, scanned, root, nbformat, nbformat_minor: number('nbformat_minor') ?? 0, warnings }
}

/** Cells of a format-4 file; throws as parseFile does. Oddities go to `warnings`. */
export function parseCells(file: ParsedFile): ParsedCells {
  const { text, scanned, root, path } = file
  const list = memberOf(root, 'cells')?.value
  if (list === undefined) throw invalidFile(path, 'cells', 'the list of cells is missing')
  if (list.kind !== 'array') throw invalidFile(path, 'cells', 'expected a list of cells')
  const cells = list.items.map((node: JsonNode, index) => {
    const at = `cells[${index}]`
    if (node.kind !== 'object') throw invalidFile(path, at, 'a cell must be an object')
    const value = jsonValue(text, node, scanned.lenient) as Record<string, unknown>
    if (typeof value.cell_type !== 'string') throw invalidFile(path, `${at}.cell_type`, 'expected a text')
    const source = joinLines(value.source ?? '')
    if (source === null) throw invalidFile(path, `${at}.source`, 'expected a text or a list of lines')
    if (value.metadata !== undefined && !isRecord(value.metadata))
      throw invalidFile(path, `${at}.metadata`, 'expected an object')
    if (value.attachments != null && !isRecord(value.attachments))
      throw invalidFile(path, `${at}.attachments`, 'expected an object')
    if (value.outputs !== undefined && !Array.isArray(value.outputs))
      throw invalidFile(path, `${at}.outputs`, 'expected a list of outputs')
    return { node, value, source }
  })
  const ids = identify(
    cells.map(({ value, source }) => ({ id: value.id, content: `${String(value.cell_type)}\n${source}` })),
  )
  return {
    list,
    cells: cells.map((cell, index) => ({
      ...cell,
      ...(ids[index] ?? { cell_id: CellId.parse('none'), from: 'missing' }),
    })),
  }
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
