/** Errors as tool results: `structuredContent.error` for programs, one readable block for models. */
import { RoomdError } from '../../../protocol/errors.ts'
import { type ContentBlock, text } from './content.ts'

/** The call that helps after an error. */
export interface NextCall {
  tool: string
  arguments: Record<string, unknown>
}

export interface ToolError {
  code: string
  message: string
  retryable: boolean
  cause?: unknown
  next?: NextCall
}

export interface ErrorResult {
  readonly isError: true
  readonly structuredContent: { readonly error: ToolError }
  readonly content: ContentBlock[]
}

/** `client_*` codes are the SDK's own; outside they are what they mean there. */
function outsideCode(code: string): string {
  switch (code) {
    case 'client_closed':
      return 'shutting_down'
    case 'client_timeout':
      return 'notebook_not_ready'
    case 'client_protocol':
    case 'client_aborted':
      return 'internal'
    default:
      return code
  }
}

export function toToolError(
  thrown: unknown,
  complete: (next: NextCall) => NextCall = (next) => next,
): ToolError {
  if (!(thrown instanceof RoomdError)) {
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    return { code: 'internal', message: `unexpected failure: ${message}`, retryable: false }
  }
  const { code, message, retryable, detail, next } = thrown
  const advised = next ?? defaultNext(code)
  return {
    code: outsideCode(code),
    message,
    retryable,
    ...(detail === undefined ? {} : { cause: detail }),
    ...(advised === undefined ? {} : { next: complete(advised) }),
  }
}

function defaultNext(code: string): ToolError['next'] | undefined {
  switch (code) {
    case 'daemon_lost':
      return { tool: 'daemon_status', arguments: {} }
    case 'kernel_died':
      return { tool: 'restart_kernel', arguments: {} }
    case 'source_conflict':
    case 'source_degraded':
      return { tool: 'get_source_status', arguments: {} }
    case 'notebook_unavailable':
      return { tool: 'list_notebooks', arguments: {} }
    default:
      return undefined
  }
}

/** `complete`: what the call that is advised shares with the one that failed. */
export function errorResult(thrown: unknown, complete?: (next: NextCall) => NextCall): ErrorResult {
  const error = toToolError(thrown, complete)
  const lines = [`Error (${error.code}): ${error.message}`]
  if (error.next) lines.push(`Next: ${error.next.tool} ${JSON.stringify(error.next.arguments)}`)
  else if (error.retryable) lines.push('The same call may succeed when it is made again.')
  return { isError: true, structuredContent: { error }, content: [text(lines.join('\n'))] }
}
