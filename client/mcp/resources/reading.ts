/** What resources contain. */
import { RoomdError } from '../../../protocol/errors.ts'
import { isBinaryMime } from '../../../protocol/mime.ts'
import type { Output } from '../../../protocol/notebook.ts'
import type { Client } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import type { DaemonLink } from '../daemon-link.ts'
import { capabilitiesOf, kernelBrief } from '../results/connected.ts'
import { isBlobRef, structuredCell, structuredSummary } from '../results/structured.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { textOf } from '../sessions/target.ts'
import { parseUri } from './uri.ts'

export interface ResourceContent {
  [key: string]: unknown
  uri: string
  mimeType: string
  text?: string
  blob?: string
}

/** Bytes of one output that a resource gives. */
const LARGEST = 32 * 1024 * 1024

/** Rejects with `not_found` for what is no resource or is gone. */
export async function readResource(
  uri: string,
  { sessions, daemon, signal }: { sessions: Sessions; daemon: DaemonLink; signal: AbortSignal },
): Promise<ResourceContent> {
  const name = parseUri(uri)
  if (!name) throw new RoomdError('not_found', `${uri} is no resource of roomd`)
  switch (name.kind) {
    case 'notebooks': {
      const client = await daemon.local()
      const pending = await sessions.pendingRejoin(0, signal)
      const { rooms } = await client.call('list_rooms', {})
      const { active, parked } = sessions
      return json(uri, {
        notebooks: rooms.map(({ notebook_id, path, title, state, kernel }) => ({
          notebook_id,
          path,
          title,
          state,
          kernel: kernel && { name: kernel.name, state: kernel.state },
        })),
        active: active?.notebookId ?? null,
        ...(pending && !active ? { pending_rejoin: textOf(pending) } : {}),
        parked: parked.map(({ notebook_id, path }) => ({ notebook_id, path })),
      })
    }
    case 'cells':
      return inRoom(sessions, name.notebookId, signal, (room) => json(uri, cellsOf(room)))
    case 'cell':
      return inRoom(sessions, name.notebookId, signal, async (room) => {
        const { cell } = await room.call('get_cell', { cell_id: name.cellId }, { signal })
        return json(uri, { notebook_id: room.id, cell: structuredCell(cell) })
      })
    case 'output': {
      const client = sessions.active?.origin === 'remote' ? sessions.active.client : await daemon.local()
      const { execution } = await client.call('get_execution', { execution_id: name.executionId })
      const output = execution.outputs[name.index]
      if (!output) {
        throw new RoomdError(
          'not_found',
          `execution ${name.executionId} has ${execution.outputs.length} outputs, none of index ${name.index}`,
        )
      }
      return outputContent(uri, client, execution.execution_id, name.index, output)
    }
  }
}

/** The notebook as the cells resource shows it. */
export function cellsOf(room: Room): Record<string, unknown> {
  const { source: _source, ...readiness } = room.state.readiness
  const { path, state, reason } = room.state.source
  return {
    notebook_id: room.id,
    path,
    source_state: state,
    ...(reason === undefined ? {} : { source_reason: reason }),
    readiness,
    capabilities: capabilitiesOf(room),
    kernel: kernelBrief(room),
    doc_seq: room.state.doc_seq,
    event_seq: room.state.event_seq,
    cells: room.state.cells.map(structuredSummary),
  }
}

async function inRoom(
  sessions: Sessions,
  notebookId: string,
  signal: AbortSignal,
  read: (room: Room) => ResourceContent | Promise<ResourceContent>,
): Promise<ResourceContent> {
  const lease = await sessions.use(notebookId, signal)
  try {
    return await read(lease.room)
  } finally {
    lease.release()
  }
}

function json(uri: string, value: unknown): ResourceContent {
  return { uri, mimeType: 'application/json', text: JSON.stringify(value) }
}

async function outputContent(
  uri: string,
  client: Client,
  execution_id: string,
  index: number,
  output: Output,
): Promise<ResourceContent> {
  if (output.output_type === 'stream' || output.output_type === 'error')
    return { uri, mimeType: 'text/plain', text: await wholeText(client, execution_id, index) }
  const names = Object.keys(output.data)
  const mime = names.find(isBinaryMime) ?? names.find((name) => name !== 'text/plain') ?? names[0]
  if (mime === undefined) return { uri, mimeType: 'text/plain', text: '' }
  const value = output.data[mime]
  if (isBinaryMime(mime)) {
    if (!isBlobRef(value)) return { uri, mimeType: mime, blob: String(value).replace(/\s+/g, '') }
    if (value.size > LARGEST) {
      throw new RoomdError('too_large', `the output has ${value.size} bytes; resources give ${LARGEST}`)
    }
    const bytes = await client.fetchBlob(value.blob)
    return { uri, mimeType: mime, blob: Buffer.from(bytes).toString('base64') }
  }
  return { uri, mimeType: mime, text: await wholeText(client, execution_id, index, mime) }
}

async function wholeText(
  client: Client,
  execution_id: string,
  index: number,
  mime?: string,
): Promise<string> {
  const parts: string[] = []
  let size = 0
  for (let offset: number | null = 0; offset !== null && size < LARGEST; ) {
    const slice: { text: string; next_offset: number | null } = await client.call('read_output', {
      execution_id,
      index,
      offset,
      ...(mime === undefined ? {} : { mime }),
    })
    parts.push(slice.text)
    size += slice.text.length
    offset = slice.next_offset
  }
  return parts.join('')
}
