/**
 * Messages of a kernel, parsed once: what an execution is told by them. Kernels differ, so what is missing gets Jupyter's default and
 * what is of the wrong kind is treated as missing; a message that tells an execution nothing is `other`.
 */
import { CommId } from '../../protocol/comms.ts'
import type { KernelMessage } from '../../protocol/kernel-host.ts'
import type { Bundle } from './values.ts'

export interface Display {
  readonly data: Bundle
  readonly metadata: Record<string, unknown>
  readonly displayId?: string
}

export type Told =
  | { readonly kind: 'status'; readonly busy: boolean }
  | { readonly kind: 'input'; readonly count: number | null }
  | { readonly kind: 'stream'; readonly name: string; readonly text: string }
  | { readonly kind: 'display'; readonly display: Display }
  | { readonly kind: 'result'; readonly display: Display; readonly count: number | null }
  | { readonly kind: 'update'; readonly display: Display }
  | {
      readonly kind: 'error'
      readonly ename: string
      readonly evalue: string
      readonly traceback: readonly string[]
    }
  | { readonly kind: 'clear'; readonly wait: boolean }
  | {
      readonly kind: 'input_request'
      readonly msgId: string
      readonly prompt: string
      readonly password: boolean
    }
  | CommTold
  | { readonly kind: 'other' }

/** What the kernel says of a comm. */
export type CommTold =
  | {
      readonly kind: 'comm_open'
      readonly commId: CommId
      readonly targetName: string
      readonly targetModule: string | null
      readonly data: Record<string, unknown>
      readonly metadata: Record<string, unknown>
      readonly buffers: Uint8Array[]
    }
  | {
      readonly kind: 'comm_msg'
      readonly commId: CommId
      readonly messageId: string
      readonly data: Record<string, unknown>
      readonly metadata: Record<string, unknown>
      readonly buffers: Uint8Array[]
    }
  | { readonly kind: 'comm_close'; readonly commId: CommId; readonly data: Record<string, unknown> }

export function readMessage(message: KernelMessage): Told {
  const { content } = message
  switch (message.msg_type) {
    case 'stream':
      return {
        kind: 'stream',
        name: content.name === 'stderr' ? 'stderr' : textOr(content.name, 'stdout'),
        text: wellFormed(textOr(content.text, textOr(content.data, ''))),
      }
    case 'display_data':
      return { kind: 'display', display: displayOf(content) }
    case 'execute_result':
    case 'pyout':
      return { kind: 'result', display: displayOf(content), count: countOf(content.execution_count) }
    case 'update_display_data':
      return { kind: 'update', display: displayOf(content) }
    case 'error':
    case 'pyerr':
      return { kind: 'error', ...errorOf(content) }
    case 'clear_output':
      return { kind: 'clear', wait: content.wait === true }
    case 'input_request':
      return {
        kind: 'input_request',
        msgId: message.msg_id,
        prompt: textOr(content.prompt, ''),
        password: content.password === true,
      }
    case 'execute_input':
      return { kind: 'input', count: countOf(content.execution_count) }
    case 'status':
      return { kind: 'status', busy: content.execution_state === 'busy' }
    case 'comm_open':
    case 'comm_msg':
    case 'comm_close':
      return commOf(message)
    default:
      return { kind: 'other' }
  }
}

function commOf({ msg_type, msg_id, content, metadata, buffers }: KernelMessage): Told {
  const { success, data: commId } = CommId.safeParse(content.comm_id)
  if (!success) return { kind: 'other' }
  const data = isRecord(content.data) ? content.data : {}
  if (msg_type === 'comm_close') return { kind: 'comm_close', commId, data }
  if (msg_type === 'comm_msg') return { kind: 'comm_msg', commId, messageId: msg_id, data, metadata, buffers }
  return {
    kind: 'comm_open',
    commId,
    targetName: textOr(content.target_name, ''),
    targetModule: typeof content.target_module === 'string' ? content.target_module : null,
    data,
    metadata,
    buffers,
  }
}

/** What an execute_reply says of the end. */
export type Reply =
  | { readonly status: 'ok'; readonly count: number | null; readonly pages: readonly Bundle[] }
  | {
      readonly status: 'error'
      readonly count: number | null
      readonly ename: string
      readonly evalue: string
    }
  | { readonly status: 'aborted'; readonly count: number | null }

export function readReply(content: Record<string, unknown>): Reply {
  const count = countOf(content.execution_count)
  if (content.status === 'ok') return { status: 'ok', count, pages: pagesOf(content.payload) }
  if (content.status === 'aborted' || content.status === 'abort') return { status: 'aborted', count }
  return { status: 'error', count, ename: textOr(content.ename, 'Error'), evalue: textOr(content.evalue, '') }
}

/** `object?` answers with a page for a pager; frontends show it as an output (JupyterLab does the same). */
function pagesOf(payload: unknown): Bundle[] {
  if (!Array.isArray(payload)) return []
  return payload
    .filter((item) => isRecord(item) && item.source === 'page' && isRecord(item.data))
    .map((item) => item.data)
}

function displayOf(content: Record<string, unknown>): Display {
  const displayId = isRecord(content.transient) ? content.transient.display_id : undefined
  return {
    data: isRecord(content.data) ? content.data : {},
    metadata: isRecord(content.metadata) ? content.metadata : {},
    ...(typeof displayId === 'string' && displayId !== '' ? { displayId } : {}),
  }
}

function errorOf(content: Record<string, unknown>): { ename: string; evalue: string; traceback: string[] } {
  const traceback = Array.isArray(content.traceback) ? content.traceback.map(String) : []
  return { ename: textOr(content.ename, 'Error'), evalue: textOr(content.evalue, ''), traceback }
}

function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) ? value : null
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise
}

/** In Node since 20, in the language since ES2024; quick for texts of any length. */
interface WellFormed {
  isWellFormed(): boolean
  toWellFormed(): string
}

/** Half a surrogate pair cannot be stored as UTF-8: it becomes U+FFFD here, so that offsets count what is stored. */
function wellFormed(text: string): string {
  const own = text as string & WellFormed
  return own.isWellFormed() ? text : own.toWellFormed()
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
