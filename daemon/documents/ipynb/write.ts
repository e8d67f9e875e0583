/**
 * Writes a notebook into the text of the file it came from. A cell that says nothing new keeps its bytes; in a cell that does,
 * only the members that changed are written anew, in the file's own spelling. Nothing new at all gives the same bytes.
 *
 * The minor version stays. Ids are written only where the version has them (4.5); a 4.5 file with cells that lack them gets
 * them, and the result says so.
 */
import { isDeepStrictEqual } from 'node:util'
import { RoomdError } from '../../../protocol/errors.ts'
import type { CellId } from '../../../protocol/ids.ts'
import type { Output } from '../../../protocol/notebook.ts'
import { wellFormed } from '../layout.ts'
import { hashBytes } from '../save.ts'
import { type JsonNode, jsonValue, ObjectNode, readNode } from './json-nodes.ts'
import {
  type Entry,
  innerMargin,
  type Source,
  spliceMembers,
  spliceSequence,
  spliceValue,
} from './json-splice.ts'
import { type JsonStyle, jupyterStyle, styleOf, writeJson } from './json-style.ts'
import { LineStarts } from './line-starts.ts'
import { splitLines } from './lines.ts'
import { fileOutput } from './outputs.ts'
import { hasIds, type ParsedCell, type ParsedFile, parseCells, parseFile } from './parse.ts'

/** A cell as it is to be written. */
export interface WriteCell {
  readonly cell_id: CellId
  readonly cell_type: string
  readonly source: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly attachments?: Readonly<Record<string, unknown>>
  /**
   * `unchanged`: outputs and execution count are those of the base file, if the cell is in it. Else all of them, with whole
   * values (no LongText, no BlobRef).
   */
  readonly outputs:
    | 'unchanged'
    | { readonly outputs: readonly Output[]; readonly execution_count: number | null }
}

export interface WriteRequest {
  /** Bytes of the file as last read or written; null: there is no file yet. */
  readonly base: Uint8Array | null
  /** What the room calls the cells of `base`, in order, where that is not what the file says. */
  readonly base_ids?: readonly CellId[] | null
  /** For messages. */
  readonly path: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly cells: readonly WriteCell[]
}

export interface Written {
  readonly bytes: Uint8Array
  /** SHA-256 of the bytes, lower-case hex. */
  readonly hash: string
  /** Cells that got an id in the file with this write although nobody asked: the file lacked it, or had it twice. */
  readonly ids_added: readonly CellId[]
  /** What the room calls the cells that were written, in order; null: just what reading the bytes again would call them. */
  readonly cell_ids: readonly CellId[] | null
}

/** Throws `invalid_argument` when the base is no notebook, `unsupported` when its format is not 4. */
export function writeNotebook(request: WriteRequest): Written {
  if (request.base === null) return written(newFile(request), [], null)
  const file = parseFile(request.base, request.path)
  if (file.nbformat !== 4)
    throw new RoomdError(
      'unsupported',
      `${request.path} has format ${file.nbformat}, which is read-only here: save it under another name, or convert it first (jupyter nbconvert --to notebook --nbformat 4)`,
      { cause: { path: request.path, nbformat: file.nbformat } },
    )
  return new Splicer(file).write(request)
}

class Splicer {
  readonly #file: ParsedFile
  readonly #root: ObjectNode
  readonly #source: Source
  readonly #withIds: boolean
  readonly #idsAdded: CellId[] = []
  /** The file calls a cell otherwise than the room does. */
  #foreignIds = false

  constructor(file: ParsedFile) {
    this.#file = file
    this.#root = objectAt(file.text, file.start)
    const style = styleOf(
      file.text,
      this.#root.members.map((member) => member.key),
    )
    this.#source = { text: file.text, lenient: file.lenient, style, lines: new LineStarts(file.text) }
    this.#withIds = hasIds(file.nbformat, file.nbformat_minor)
  }

  write(request: WriteRequest): Written {
    const { text } = this.#file
    const root = this.#root
    const changed = new Map<string, string>()
    const metadata = root.member('metadata')
    if (metadata) changed.set('metadata', spliceValue(this.#source, metadata.value, request.metadata))
    else if (Object.keys(request.metadata).length > 0)
      changed.set(
        'metadata',
        writeJson(request.metadata, this.#source.style, innerMargin(this.#source, root)),
      )
    changed.set('cells', this.#cells(request.cells, request.base_ids ?? null))
    const body = spliceMembers(this.#source, root, changed)
    const whole = text.slice(0, root.start) + body + text.slice(root.end)
    // Ids in the file are found again there; derived ones change with the content.
    const found = this.#withIds && !this.#foreignIds
    return written(whole, this.#idsAdded, found ? null : request.cells.map((cell) => cell.cell_id))
  }

  #cells(cells: readonly WriteCell[], baseIds: readonly CellId[] | null): string {
    const list = this.#root.member('cells')?.value
    if (list?.kind !== 'array')
      throw new RoomdError('internal', `${this.#file.path}: the list of cells is gone`)
    const byId = new Map(
      parseCells(this.#file, baseIds).map((cell, index) => [
        cell.cell_id,
        { cell, index, node: list.items[index] },
      ]),
    )
    const margin = innerMargin(this.#source, list)
    const entries = cells.map((cell): Entry => {
      const found = byId.get(cell.cell_id)
      return found?.node?.kind === 'object'
        ? { old: found.index, text: this.#changedCell(found.node, found.cell, cell) }
        : { old: null, text: writeJson(newCell(cell, this.#withIds), this.#source.style, margin) }
    })
    return spliceSequence(this.#source, list, entries)
  }

  #changedCell(node: ObjectNode, old: ParsedCell, cell: WriteCell): string {
    const { text, lenient, style } = this.#source
    const margin = innerMargin(this.#source, node)
    const changed = new Map<string, string | null>()
    const set = (key: string, value: unknown): void => {
      const member = node.member(key)
      changed.set(
        key,
        member ? spliceValue(this.#source, member.value, value) : writeJson(value, style, margin),
      )
    }
    const has = (key: string): boolean => node.member(key) !== undefined
    const drop = (key: string): void => {
      if (has(key)) changed.set(key, null)
    }

    if (this.#withIds && old.from !== 'own') {
      set('id', cell.cell_id)
      this.#idsAdded.push(cell.cell_id)
    } else if (old.value.id !== cell.cell_id) this.#foreignIds = true
    if (cell.cell_type !== old.value.cell_type) set('cell_type', cell.cell_type)
    if (cell.source !== wellFormed(old.source)) {
      const member = node.member('source')
      const asText = member?.value.kind === 'string'
      set('source', asText ? cell.source : splitLines(cell.source))
    }
    if (!isDeepStrictEqual(cell.metadata, old.value.metadata ?? {})) set('metadata', cell.metadata)
    if (cell.attachments === undefined) {
      if (old.value.attachments != null) drop('attachments')
    } else if (!isDeepStrictEqual(cell.attachments, old.value.attachments))
      set('attachments', cell.attachments)

    if (cell.cell_type !== 'code') {
      if (old.value.cell_type === 'code') {
        drop('outputs')
        drop('execution_count')
      }
    } else if (cell.outputs !== 'unchanged') {
      const member = node.member('outputs')
      const outputs = cell.outputs.outputs.map(fileOutput)
      if (member === undefined || !sameOutputs(jsonValue(text, member.value, lenient), outputs))
        changed.set('outputs', this.#outputs(node, outputs, margin))
      if (!has('execution_count') || old.value.execution_count !== cell.outputs.execution_count)
        set('execution_count', cell.outputs.execution_count)
    } else if (old.value.cell_type !== 'code') {
      if (!has('outputs')) set('outputs', [])
      if (!has('execution_count')) set('execution_count', null)
    }
    if (changed.size === 0) return text.slice(node.start, node.end)
    return spliceMembers(this.#source, node, changed)
  }

  /** Outputs that are still the same keep their text; of the others nothing is kept. */
  #outputs(node: ObjectNode, outputs: readonly Record<string, unknown>[], margin: string): string {
    const { text, lenient, style } = this.#source
    const member = node.member('outputs')
    const list: JsonNode | undefined = member?.value
    if (list?.kind !== 'array') return writeJson(outputs, style, margin)
    const inner = innerMargin(this.#source, list)
    const entries = outputs.map((output, index): Entry => {
      const before = list.items[index]
      if (before && sameOutput(jsonValue(text, before, lenient), output))
        return { old: index, text: text.slice(before.start, before.end) }
      return { old: null, text: writeJson(output, style, inner) }
    })
    return spliceSequence(this.#source, list, entries)
  }
}

function objectAt(text: string, start: number): ObjectNode {
  const node = readNode(text, start)
  if (node instanceof ObjectNode) return node
  throw new RoomdError('internal', 'a notebook that was read is no object')
}

function newFile(request: WriteRequest): string {
  const style: JsonStyle = jupyterStyle
  const cells = request.cells.map((cell) => newCell(cell, true))
  return `${writeJson({ cells, metadata: request.metadata, nbformat: 4, nbformat_minor: 5 }, style, '')}\n`
}

/** Keys in the order in which Jupyter writes them. */
function newCell(cell: WriteCell, withId: boolean): Record<string, unknown> {
  const isCode = cell.cell_type === 'code'
  const ran = cell.outputs === 'unchanged' ? { outputs: [], execution_count: null } : cell.outputs
  return {
    ...(cell.attachments ? { attachments: cell.attachments } : {}),
    cell_type: cell.cell_type,
    ...(isCode ? { execution_count: ran.execution_count } : {}),
    ...(withId ? { id: cell.cell_id } : {}),
    metadata: cell.metadata,
    ...(isCode ? { outputs: ran.outputs.map(fileOutput) } : {}),
    source: splitLines(cell.source),
  }
}

function sameOutputs(old: unknown, outputs: readonly Record<string, unknown>[]): boolean {
  return Array.isArray(old) && old.length === outputs.length && old.every((o, i) => sameOutput(o, outputs[i]))
}

/** Equal but for how texts are cut into lines. */
function sameOutput(old: unknown, output: Record<string, unknown> | undefined): boolean {
  return output !== undefined && isDeepStrictEqual(joined(old), joined(output))
}

function joined(value: unknown): unknown {
  if (Array.isArray(value))
    return value.length > 0 && value.every((item) => typeof item === 'string')
      ? value.join('')
      : value.map(joined)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, joined(part)]))
}

function written(text: string, idsAdded: CellId[], cellIds: CellId[] | null): Written {
  const bytes = new TextEncoder().encode(text)
  return { bytes, hash: hashBytes(bytes), ids_added: idsAdded, cell_ids: cellIds }
}
