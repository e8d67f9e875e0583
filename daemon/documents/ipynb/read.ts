/** Reads an `.ipynb` file into cells, outputs and metadata. Opening changes nothing: see write.ts for the way back. */
import type { CellId } from '../../../protocol/ids.ts'
import type { Output } from '../../../protocol/notebook.ts'
import type { CellSeed } from '../layout.ts'
import { wellFormed } from '../layout.ts'
import { readOldCells } from './old-formats.ts'
import { countOf, isRecord, readOutput } from './outputs.ts'
import { type FileWarning, hasIds, invalidFile, type ParsedFile, parseCells, parseFile } from './parse.ts'
import { validateNotebook } from './validate.ts'

/** A cell of a file. Sources are joined, lone surrogates replaced; metadata and attachments are as the file has them. */
export interface FileCell extends CellSeed {
  /** Texts joined, values whole. Empty for cells that are no code. */
  readonly outputs: readonly Output[]
  readonly execution_count: number | null
  /** The id that the file itself gives; null: none that can be used, so that `cell_id` was made from the content. */
  readonly own_id: string | null
}

export interface NotebookFile {
  readonly nbformat: number
  readonly nbformat_minor: number
  readonly metadata: Record<string, unknown>
  readonly cells: readonly FileCell[]
  /** Kernelspec name and language that the metadata asks for. */
  readonly kernel_name: string | null
  readonly language: string | null
  /** Why it must not be written, such as `nbformat 3`; null: it may be. */
  readonly read_only: string | null
  readonly warnings: readonly FileWarning[]
}

/**
 * Throws `invalid_argument` whose cause is `{path, at: 'cells[3].outputs[0].data', reason}`. `ids`: what a room calls the cells,
 * where that is not what the file says.
 */
export function readNotebook(
  bytes: Uint8Array,
  path: string,
  ids: readonly CellId[] | null = null,
): NotebookFile {
  const { file, rest } = readNotebookFirst(bytes, path, ids)
  return { ...file, warnings: rest() }
}

/**
 * The same in two steps: what is to be shown, and everything that could keep the file from being opened; then, with `rest`, all
 * warnings, which takes about as long again.
 */
export function readNotebookFirst(
  bytes: Uint8Array,
  path: string,
  ids: readonly CellId[] | null = null,
): { file: Omit<NotebookFile, 'warnings'>; rest: () => readonly FileWarning[] } {
  const file = parseFile(bytes, path)
  const notebook = notebookOf(file)
  const cells = file.nbformat === 4 ? readCells(file, ids) : readOldCells(file)
  return {
    file: { ...notebook, cells },
    rest: () => (file.nbformat === 4 ? [...file.warnings, ...violations(file)] : file.warnings),
  }
}

/** What a file is apart from its cells. */
export function notebookOf(file: ParsedFile): Omit<NotebookFile, 'cells' | 'warnings'> {
  const { nbformat, nbformat_minor } = file
  const metadata = metadataOf(file)
  const read_only = nbformat === 4 ? null : `nbformat ${nbformat}`
  return { nbformat, nbformat_minor, metadata, ...kernelOf(metadata), read_only }
}

/** What breaks the format's rules and was not told before. */
function violations(file: ParsedFile): FileWarning[] {
  const told = new Set(file.warnings.map(({ at }) => at))
  return validateNotebook(file.value, file.nbformat_minor).filter(({ at }) => !told.has(at))
}

const DROPPED = ['name', 'signature', 'orig_nbformat', 'orig_nbformat_minor']

export function metadataOf(file: ParsedFile): Record<string, unknown> {
  const value = file.value.metadata ?? {}
  if (!isRecord(value)) throw invalidFile(file.path, 'metadata', 'expected an object')
  if (file.nbformat >= 4) return value
  // Of earlier formats: the file's name is its name now, and signatures are kept elsewhere.
  return Object.fromEntries(Object.entries(value).filter(([key]) => !DROPPED.includes(key)))
}

export function readCells(file: ParsedFile, ids: readonly CellId[] | null): FileCell[] {
  const cells = parseCells(file, ids)
  const { path, warnings } = file
  const withIds = hasIds(file.nbformat, file.nbformat_minor)
  return cells.map((cell, index): FileCell => {
    const at = `cells[${index}]`
    const { value } = cell
    if (cell.from === 'duplicate')
      warnings.push({
        at: `${at}.id`,
        reason: `the id ${JSON.stringify(value.id)} occurs before; the cell gets ${cell.cell_id}`,
      })
    else if (cell.from === 'invalid')
      warnings.push({
        at: `${at}.id`,
        reason: `expected a text of 1 to 128 characters; the cell gets ${cell.cell_id}`,
      })
    else if (cell.from === 'missing' && withIds)
      warnings.push({
        at,
        reason: `the cell has no id, which format 4.5 asks for; it gets ${cell.cell_id} at the first save`,
      })
    const outputs: Output[] = []
    if (cell.value.cell_type === 'code' && Array.isArray(value.outputs)) {
      value.outputs.forEach((raw: unknown, number) => {
        const place = `${at}.outputs[${number}]`
        const read = readOutput(raw, (below, reason) => {
          throw invalidFile(path, `${place}${below}`, reason)
        })
        if ('output' in read) outputs.push(read.output)
        else warnings.push({ at: place, reason: read.skipped })
      })
    }
    return {
      cell_id: cell.cell_id,
      cell_type: String(value.cell_type),
      source: wellFormed(cell.source),
      metadata: isRecord(value.metadata) ? value.metadata : {},
      ...(isRecord(value.attachments) ? { attachments: value.attachments } : {}),
      outputs,
      execution_count: countOf(value.execution_count),
      own_id: cell.from === 'own' ? String(value.id) : null,
    }
  })
}

function kernelOf(metadata: Record<string, unknown>): {
  kernel_name: string | null
  language: string | null
} {
  const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
  const spec = isRecord(metadata.kernelspec) ? metadata.kernelspec : {}
  const info = isRecord(metadata.language_info) ? metadata.language_info : {}
  return { kernel_name: text(spec.name), language: text(spec.language) ?? text(info.name) }
}
