/**
 * The two error families. Wire codes travel in RESPONSE and ERROR frames; `client_*` codes are made by the SDK and never
 * travel. Every error says what happened, why, and what to do next.
 */
import { z } from 'zod'

/** Wire code → whether the same request may succeed when it is simply sent again. */
export const wireCodes = {
  notebook_not_ready: true,
  runtime_not_ready: true,
  source_degraded: false,
  source_conflict: false,
  session_superseded: false,
  sync_failed: true,
  daemon_replaced: true,
  notebook_unavailable: false,
  file_active_elsewhere: false,
  not_found: false,
  invalid_argument: false,
  conflict: false,
  unauthorized: false,
  forbidden: false,
  kernel_not_found: false,
  kernel_start_failed: true,
  kernel_died: true,
  outcome_unknown: false,
  overloaded: true,
  too_large: false,
  /** A git command failed; `cause.failure` says how. */
  git_failed: true,
  /** The project is still being cloned, or its last fetch failed. */
  project_not_ready: true,
  storage_full: true,
  storage_failed: true,
  shutting_down: true,
  unsupported: false,
  internal: false,
} as const satisfies Record<string, boolean>

/** Codes that the SDK makes itself. `daemon_lost`: no daemon could be reached within the wait. */
export const localCodes = {
  client_closed: false,
  client_timeout: true,
  client_protocol: false,
  client_aborted: false,
  daemon_lost: true,
} as const satisfies Record<string, boolean>

export type WireCode = keyof typeof wireCodes
export type LocalCode = keyof typeof localCodes
export type ErrorCode = WireCode | LocalCode

export const WireCode = z.enum(Object.keys(wireCodes) as [WireCode, ...WireCode[]])

/** What a structured error looks like wherever it is shown: RESPONSE frames, MCP results, `--json`. */
export const WireError = z.object({
  code: WireCode,
  message: z.string(),
  retryable: z.boolean(),
  /** Machine-readable detail, e.g. `{path, at, reason}` for a file that is no notebook. */
  cause: z.unknown().optional(),
  /** The call that recovers or finds out, in MCP tool terms. */
  next: z.object({ tool: z.string(), arguments: z.record(z.string(), z.unknown()) }).optional(),
})
export type WireError = z.output<typeof WireError>

export interface ErrorDetail {
  cause?: unknown
  next?: { tool: string; arguments: Record<string, unknown> } | undefined
  retryable?: boolean
}

/** The one error class of the project. Anything else that reaches a border is a defect and becomes `internal`. */
export class RoomdError extends Error {
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly detail: unknown
  readonly next: ErrorDetail['next']

  constructor(code: ErrorCode, message: string, detail: ErrorDetail = {}) {
    super(message)
    this.name = 'RoomdError'
    this.code = code
    this.retryable =
      detail.retryable ?? (code in wireCodes ? wireCodes[code as WireCode] : localCodes[code as LocalCode])
    this.detail = detail.cause
    this.next = detail.next
  }

  /** The form that travels. Local codes must not: they become `internal`. */
  toWire(): WireError {
    return {
      code: this.code in wireCodes ? (this.code as WireCode) : 'internal',
      message: this.message,
      retryable: this.retryable,
      ...(this.detail === undefined ? {} : { cause: this.detail }),
      ...(this.next === undefined ? {} : { next: this.next }),
    }
  }

  static fromWire(error: WireError): RoomdError {
    return new RoomdError(error.code, error.message, {
      retryable: error.retryable,
      cause: error.cause,
      next: error.next,
    })
  }
}

/** A reason in words, whatever was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** Turns whatever was thrown into what may travel; a full disk is `storage_full`; an unknown failure keeps its message and is `internal`. */
export function toWireError(thrown: unknown): WireError {
  if (thrown instanceof RoomdError) return thrown.toWire()
  if (isDiskFull(thrown))
    return new RoomdError(
      'storage_full',
      `the disk is full: free some space and try again (${messageOf(thrown)})`,
    ).toWire()
  return { code: 'internal', message: `unexpected failure: ${messageOf(thrown)}`, retryable: false }
}

/** The system's own error, from whatever was being written. */
function isDiskFull(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && (thrown.code === 'ENOSPC' || thrown.code === 'EDQUOT')
}

/** Parses an outside value, or throws `invalid_argument` naming the first place that is wrong. */
export function parseOutside<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  const at = issue?.path.map(String).join('.') ?? ''
  throw new RoomdError('invalid_argument', `${what}${at ? `: ${at}` : ''}: ${issue?.message ?? 'invalid'}`, {
    cause: {
      at,
      issues: parsed.error.issues
        .slice(0, 5)
        .map((i) => ({ at: i.path.map(String).join('.'), message: i.message })),
    },
  })
}
