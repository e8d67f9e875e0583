/**
 * The layout of the shared document, which is that of Jupyter's own shared notebook (`@jupyter/ydoc`, YNotebook), so that
 * editors bind to it as it is:
 *
 *   cells: Y.Array of Y.Map {id, cell_type, source: Y.Text, metadata: Y.Map, attachments?,
 *                            code cells only: outputs: Y.Array, execution_count, execution_state}
 *   meta:  Y.Map {metadata: Y.Map, nbformat, nbformat_minor}
 *   state: Y.Map, the editors' own
 *
 * `outputs` stays empty and `execution_count` null: outputs belong to executions. The keys are there because YNotebook expects
 * them. Values below `metadata` and `attachments` are plain JSON.
 */
import { isDeepStrictEqual } from 'node:util'
import * as Y from 'yjs'
import { RoomdError } from '../../protocol/errors.ts'
import { type CellId, isCellId } from '../../protocol/ids.ts'
import type { DocumentCellView } from '../rooms/parts.ts'
import { sourceHash } from './source-hash.ts'

export type CellMap = Y.Map<unknown>

/** What a new cell is made of. */
export interface CellSeed {
  readonly cell_id: CellId
  readonly cell_type: string
  readonly source: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly attachments?: Readonly<Record<string, unknown>>
}

export function cellsOf(doc: Y.Doc): Y.Array<CellMap> {
  return doc.getArray<CellMap>('cells')
}

export function metaOf(doc: Y.Doc): Y.Map<unknown> {
  return doc.getMap('meta')
}

/** Makes the roots known to a document that is empty or about to take updates; without that, updates give them no type. */
export function defineRoots(doc: Y.Doc): void {
  cellsOf(doc)
  metaOf(doc)
  doc.getMap('state')
}

export function makeCell(seed: CellSeed): CellMap {
  const cell: CellMap = new Y.Map()
  cell.set('id', seed.cell_id)
  cell.set('cell_type', seed.cell_type)
  cell.set('source', new Y.Text(wellFormed(seed.source)))
  cell.set('metadata', makeMap(seed.metadata))
  if (seed.attachments) cell.set('attachments', seed.attachments)
  if (seed.cell_type === 'code') addCodeKeys(cell)
  return cell
}

/** Keys that only code cells have. */
export function addCodeKeys(cell: CellMap): void {
  cell.set('outputs', new Y.Array())
  cell.set('execution_count', null)
  cell.set('execution_state', 'idle')
}

export function removeCodeKeys(cell: CellMap): void {
  for (const key of ['outputs', 'execution_count', 'execution_state']) cell.delete(key)
}

export function makeMap(values: Readonly<Record<string, unknown>>): Y.Map<unknown> {
  return new Y.Map(Object.entries(values))
}

/** Makes the map under `key` hold these values and no others; keys that are equal stay, so that another's change stays too. */
export function setMapValues(
  holder: Y.Map<unknown>,
  key: string,
  values: Readonly<Record<string, unknown>>,
): void {
  const present = holder.get(key)
  if (!(present instanceof Y.Map)) {
    holder.set(key, makeMap(values))
    return
  }
  for (const old of [...present.keys()]) if (!(old in values)) present.delete(old)
  for (const [name, value] of Object.entries(values))
    if (!present.has(name) || !isDeepStrictEqual(present.get(name), value)) present.set(name, value)
}

/** Half a surrogate pair has no UTF-8 form and would change on the way to peers; it becomes U+FFFD here already. */
export function wellFormed(text: string): string {
  return text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
}

export function sourceOf(cell: CellMap): Y.Text {
  return cell.get('source') as Y.Text
}

export function idOf(cell: CellMap): CellId {
  return cell.get('id') as CellId
}

/** Plain JSON of a metadata map; older editors put a plain object in its place. */
export function plain(value: unknown): Record<string, unknown> {
  if (value instanceof Y.Map) return value.toJSON() as Record<string, unknown>
  return isRecord(value) ? value : {}
}

/** `source`: the text of the cell. */
export function viewOf(cell: CellMap, source: string): DocumentCellView {
  const attachments = attachmentsOf(cell)
  let hash: string | null = null
  return {
    cell_id: idOf(cell),
    cell_type: cell.get('cell_type') as string,
    source,
    // Made when somebody looks: most views of a large notebook are never shown.
    get source_hash() {
      hash ??= sourceHash(source)
      return hash
    },
    metadata: plain(cell.get('metadata')),
    ...(attachments === null ? {} : { attachments }),
  }
}

export function attachmentsOf(cell: CellMap): Record<string, unknown> | null {
  const value = cell.get('attachments')
  return value === undefined || value === null ? null : plain(value)
}

/** Throws `invalid_argument` naming what is wrong with a cell of a peer's update. `at` is its place. */
export function checkCell(cell: unknown, at: string): void {
  if (!(cell instanceof Y.Map)) throw broken(at, 'a cell must be a Y.Map')
  if (!isCellId(cell.get('id')))
    throw broken(`${at}.id`, 'a cell needs a text of 1 to 128 characters as its id')
  if (typeof cell.get('cell_type') !== 'string')
    throw broken(`${at}.cell_type`, 'a cell needs a text as its type')
  const source = cell.get('source')
  if (!(source instanceof Y.Text)) throw broken(`${at}.source`, 'a source must be a Y.Text')
  if (!isPlainText(source)) throw broken(`${at}.source`, 'a source holds text only')
  const metadata = cell.get('metadata')
  if (!(metadata instanceof Y.Map) && !isRecord(metadata))
    throw broken(`${at}.metadata`, 'metadata must be a Y.Map')
  const attachments = cell.get('attachments')
  if (attachments != null && !(attachments instanceof Y.Map) && !isRecord(attachments))
    throw broken(`${at}.attachments`, 'attachments must be an object')
  const outputs = cell.get('outputs')
  if (outputs === undefined) return
  if (!(outputs instanceof Y.Array)) throw broken(`${at}.outputs`, 'outputs must be a Y.Array')
  if (outputs.length > 0)
    throw broken(`${at}.outputs`, 'outputs are not part of the document: they belong to executions')
}

/** Throws `invalid_argument` when the notebook's own map is broken. */
export function checkMeta(meta: Y.Map<unknown>): void {
  const metadata = meta.get('metadata')
  if (!(metadata instanceof Y.Map) && !isRecord(metadata))
    throw broken('meta.metadata', 'metadata must be a Y.Map')
  for (const key of ['nbformat', 'nbformat_minor'])
    if (!Number.isInteger(Number(meta.get(key))))
      throw broken(`meta.${key}`, 'a format version must be a whole number')
}

function isPlainText(text: Y.Text): boolean {
  for (let item = text._start; item !== null; item = item.right) {
    if (item.deleted) continue
    if (item.content instanceof Y.ContentEmbed || item.content instanceof Y.ContentType) return false
  }
  return true
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Y.AbstractType)
  )
}

function broken(at: string, reason: string): RoomdError {
  return new RoomdError(
    'invalid_argument',
    `the document update breaks the notebook's layout at ${at}: ${reason}; it was not applied`,
    { cause: { at, reason } },
  )
}
