/** The result of `connect_notebook` and `create_notebook`: what the notebook is, what may be done with it now, who is there. */
import type { KernelSummary, Readiness } from '../../../protocol/notebook.ts'
import { scopeAllows } from '../../../protocol/scopes.ts'
import type { Room } from '../../sdk/room.ts'
import type { Connected } from '../sessions/sessions.ts'
import { describeSince } from '../sessions/since.ts'
import type { ToolResult } from '../tools/tool.ts'
import { cellLine } from './cells.ts'
import { text } from './content.ts'
import { counted } from './model-text.ts'
import { structuredExecution, structuredSummary } from './structured.ts'

/** Cells in the result; the rest is had by get_all_cells. */
const SHOWN_CELLS = 100
/** Lines of cells in the text. */
const LISTED_CELLS = 40

export interface Capabilities {
  readonly read: boolean
  readonly mutate: boolean
  readonly execute: boolean
}

/** What the gates allow at this moment. */
export function capabilitiesOf(room: Room): Capabilities {
  const { readiness, scope } = room.state
  const read = readiness.projection !== 'pending'
  const closed = ['conflict', 'degraded', 'read_only', 'loading'].includes(readiness.source.state)
  const mutate = readiness.document === 'interactive' && !closed && scopeAllows(scope, 'editor')
  const execute = mutate && readiness.runtime !== 'failed' && scopeAllows(scope, 'owner')
  return { read, mutate, execute }
}

/** The kernel; where none was started yet, the one the notebook asks for. */
export function kernelBrief(room: Room): { name: string; state: string; language: string } | null {
  const { kernel, metadata } = room.state
  if (kernel) return briefOf(kernel)
  const spec = metadata.kernelspec as { name?: unknown; language?: unknown } | undefined
  if (typeof spec?.name !== 'string') return null
  const info = metadata.language_info as { name?: unknown } | undefined
  const language = [spec.language, info?.name].find((name) => typeof name === 'string')
  return { name: spec.name, state: 'none', language: String(language ?? '') }
}

function briefOf({ name, state, language }: KernelSummary) {
  return { name, state, language }
}

export function connectedResult({ session, status, switchedFrom, since }: Connected): ToolResult {
  const { room, client } = session
  const { state } = room
  const daemon = client.daemon
  const { source: _source, ...readiness } = state.readiness
  const kernel = kernelBrief(room)
  const cells = state.cells.slice(0, SHOWN_CELLS)
  const summaries = cells.map(structuredSummary)
  const structured = {
    notebook_id: session.notebookId,
    ...(session.path === null ? {} : { path: session.path }),
    status,
    activation_generation: session.generation,
    daemon: {
      version: daemon?.version ?? '',
      pid: daemon?.pid ?? 0,
      boot_id: session.bootId,
    },
    source_state: state.source.state,
    ...(state.source.reason === undefined ? {} : { source_reason: state.source.reason }),
    readiness,
    capabilities: capabilitiesOf(room),
    ...(kernel === null ? {} : { kernel }),
    doc_seq: state.doc_seq,
    event_seq: state.event_seq,
    peers: state.peers.map(({ label, kind, scope }) => ({ label, kind, scope })),
    cells: summaries,
    ...(state.cells.length > cells.length ? { total_cells: state.cells.length } : {}),
    ...(switchedFrom === null
      ? {}
      : {
          switched_from: {
            notebook_id: switchedFrom.notebook_id,
            ...(switchedFrom.path === null ? {} : { path: switchedFrom.path }),
          },
        }),
    ...(since === null
      ? {}
      : {
          since: {
            executions: since.executions.map((execution) => structuredExecution(execution)),
            edits: since.edits,
            editors: [...since.editors],
          },
        }),
  }
  return { structured, content: [text(words(session, status, structured.capabilities, since).join('\n'))] }

  function words(
    { notebookId, path }: typeof session,
    how: typeof status,
    can: Capabilities,
    meanwhile: typeof since,
  ): string[] {
    const verb = { connected: 'Connected to', already_connected: 'Already in', resumed: 'Back in' }[how]
    const lines = [`${verb} ${path ?? `an untitled notebook`} (notebook_id ${notebookId}).`]
    if (meanwhile) lines.push(describeSince(meanwhile) ?? 'Nothing happened since you left.')
    if (switchedFrom) lines.push(`${switchedFrom.path ?? switchedFrom.notebook_id} is parked now.`)
    lines.push(kernelLine(kernel, state.running?.cell_id ?? null, state.queuedTotal))
    const limits = limitsOf(state.readiness, can)
    if (limits !== null) lines.push(limits)
    const others = state.peers
      .filter((peer) => peer.client_instance !== client.clientInstance)
      .map((peer) => peer.label)
    if (others.length > 0) lines.push(`Also here: ${others.join(', ')}.`)
    lines.push(state.cells.length === 0 ? 'No cells yet.' : `${counted(state.cells.length, 'cell')}:`)
    lines.push(...state.cells.slice(0, LISTED_CELLS).map(cellLine))
    if (state.cells.length > LISTED_CELLS)
      lines.push(
        `… get_all_cells {"start": ${LISTED_CELLS}} lists the other ${state.cells.length - LISTED_CELLS}`,
      )
    return lines
  }
}

function kernelLine(kernel: ReturnType<typeof kernelBrief>, running: string | null, queued: number): string {
  if (!kernel) return 'No kernel yet; the first cell that runs starts one.'
  const name = `Kernel ${kernel.name}${kernel.language === '' ? '' : ` (${kernel.language})`}`
  if (kernel.state === 'none') return `${name} is not started; the first cell that runs starts it.`
  const busy = running === null ? '' : `, running cell ${running}`
  return `${name} is ${kernel.state}${busy}${queued > 0 ? `, ${queued} queued` : ''}.`
}

function limitsOf(readiness: Readiness, can: Capabilities): string | null {
  const { state, reason } = readiness.source
  if (can.mutate && can.execute) return null
  const why =
    state === 'ready' || state === 'none'
      ? readiness.document === 'interactive'
        ? `the kernel is ${readiness.runtime}`
        : 'the document is still loading'
      : `${state}${reason === undefined ? '' : `: ${reason}`}`
  if (can.mutate) return `Cells cannot run at the moment: ${why}.`
  return `Read only at the moment: ${why}.`
}
