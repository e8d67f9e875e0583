/**
 * Answers that the proxy makes itself, in the shape that all tools have: text for the model, and `structuredContent.error = {code,
 * message, retryable, cause?, next?}`. Codes are those of protocol/errors.ts.
 */
import { type JsonObject, type Outcome, RpcCode } from './jsonrpc.ts'
import type { OpenCall, ToolCall } from './open-calls.ts'
import type { Pause } from './restart-control.ts'

export interface ToolError {
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  readonly cause?: JsonObject
  readonly next?: { readonly tool: string; readonly arguments: JsonObject }
}

export function toolError(error: ToolError): JsonObject {
  const next = error.next
  const hint = next === undefined ? '' : `\nNext: ${next.tool} ${JSON.stringify(next.arguments)}`
  return {
    content: [{ type: 'text', text: `${error.code}: ${error.message}${hint}` }],
    structuredContent: { error },
    isError: true,
  }
}

/** "a child cannot be started: REASON. It is tried again in N s" */
export function pauseText(pause: Pause, now: number): string {
  const seconds = Math.max(1, Math.ceil((pause.until - now) / 1000))
  return `the MCP child is paused after ${pause.reason}. It is started again in ${seconds} s; the daemon and its kernels are not affected`
}

/**
 * What a call is answered with that cannot be settled because no child can be started. Whether it had an effect is unknown only if
 * some child had it and its tool does more than read.
 */
export function unsettled(open: OpenCall, pause: Pause, now: number): Outcome {
  const why = pauseText(pause, now)
  const cause = { reason: pause.reason, retry_in_ms: Math.max(0, pause.until - now) }
  if (open.call === null) {
    return {
      error: { code: RpcCode.unavailable, message: `${open.method} was not answered: ${why}.`, data: cause },
    }
  }
  if (open.everSent && open.call.mutates) {
    return {
      result: toolError({
        code: 'outcome_unknown',
        message: `whether ${open.call.tool} took effect is not known: the child ended while it ran, and ${why}. Look before you repeat it.`,
        retryable: false,
        cause,
        next: finding(open.call),
      }),
    }
  }
  const what = open.everSent ? 'was not answered' : 'was not started'
  return {
    result: toolError({
      code: 'internal',
      message: `${open.call.tool} ${what}: ${why}. The same call may be made again then.`,
      retryable: true,
      cause,
      next: { tool: open.call.tool, arguments: open.call.arguments },
    }),
  }
}

export function tooLong(open: OpenCall, bytes: number): Outcome {
  const message = `the answer to ${open.call?.tool ?? open.method} has ${bytes} bytes, more than one message may have. Ask for less: without full_output, or with offset.`
  if (open.call === null) return { error: { code: RpcCode.internal, message } }
  return { result: toolError({ code: 'too_large', message, retryable: false }) }
}

/** The call that shows whether this one took effect. */
function finding(call: ToolCall): NonNullable<ToolError['next']> {
  const notebook = call.arguments.notebook ?? call.meant
  const there = notebook === null || notebook === undefined ? {} : { notebook }
  switch (call.tool) {
    case 'connect_notebook':
    case 'create_notebook':
    case 'claim_room':
    case 'disconnect_notebook':
      return { tool: 'list_active_notebooks', arguments: {} }
    case 'save_notebook':
    case 'reconcile_source':
      return { tool: 'get_source_status', arguments: there }
    case 'execute_cell':
    case 'run_all_cells':
    case 'cancel_execution':
    case 'send_input':
    case 'interrupt_kernel':
    case 'restart_kernel':
      return { tool: 'list_executions', arguments: there }
    default:
      if (call.tool.startsWith('session_')) return { tool: 'session_list', arguments: {} }
      return typeof call.arguments.cell_id === 'string'
        ? { tool: 'get_cell', arguments: { cell_id: call.arguments.cell_id, ...there } }
        : { tool: 'get_all_cells', arguments: there }
  }
}
