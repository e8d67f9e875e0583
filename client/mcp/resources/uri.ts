/** Names of resources. Segments are percent-encoded, so that ids of any file fit. */
export type ResourceName =
  | { readonly kind: 'notebooks' }
  | { readonly kind: 'cells'; readonly notebookId: string }
  | { readonly kind: 'cell'; readonly notebookId: string; readonly cellId: string }
  | { readonly kind: 'output'; readonly executionId: string; readonly index: number }

export const templates = [
  {
    uriTemplate: 'roomd://notebooks/{notebook_id}/cells',
    name: 'cells',
    title: 'Cells of a notebook',
    description: 'The cells of a notebook in short, its kernel and what may be done with it now.',
    mimeType: 'application/json',
  },
  {
    uriTemplate: 'roomd://notebooks/{notebook_id}/cells/{cell_id}',
    name: 'cell',
    title: 'One cell',
    description: 'Source, state and outputs of a cell.',
    mimeType: 'application/json',
  },
  {
    uriTemplate: 'roomd://executions/{execution_id}/outputs/{index}',
    name: 'output',
    title: 'One output of an execution',
    description: 'The output as it is: an image as an image, text as text.',
  },
] as const

export const NOTEBOOKS = 'roomd://notebooks'

export function cellsUri(notebookId: string): string {
  return `${NOTEBOOKS}/${encodeURIComponent(notebookId)}/cells`
}

export function cellUri(notebookId: string, cellId: string): string {
  return `${cellsUri(notebookId)}/${encodeURIComponent(cellId)}`
}

/** `index` counts the outputs of the execution from 0. */
export function outputUri(executionId: string, index: number): string {
  return `roomd://executions/${encodeURIComponent(executionId)}/outputs/${index}`
}

/** null: no resource of ours. */
export function parseUri(uri: string): ResourceName | null {
  const found = /^roomd:\/\/(notebooks|executions)(?:\/(.*))?$/.exec(uri)
  if (!found) return null
  let parts: string[]
  try {
    parts = (found[2] ?? '').split('/').map(decodeURIComponent)
  } catch {
    return null
  }
  const [id, part, last] = parts
  if (found[1] === 'executions') {
    if (parts.length !== 3 || part !== 'outputs' || !id || !/^\d{1,9}$/.test(last ?? '')) return null
    return { kind: 'output', executionId: id, index: Number(last) }
  }
  if (!id) return found[2] === undefined || found[2] === '' ? { kind: 'notebooks' } : null
  if (part !== 'cells') return null
  if (parts.length === 2) return { kind: 'cells', notebookId: id }
  return parts.length === 3 && last ? { kind: 'cell', notebookId: id, cellId: last } : null
}
