/**
 * The JSON that a host gives its hooks, read leniently: fields that are missing are empty, unknown ones are kept. Long texts (contents
 * of files that were written) are cut before they are kept.
 */
import type { JsonObject } from './lenient-json.ts'
import { isJsonObject } from './lenient-json.ts'

export interface HookInput {
  readonly event: string
  readonly sessionId: string
  readonly cwd: string
  readonly permissionMode: string
  readonly source: string
  readonly reason: string
  readonly prompt: string
  readonly tool: string
  readonly toolInput: JsonObject
  readonly toolResponse: unknown
  readonly toolUseId: string
  /** All fields, with long texts cut. */
  readonly kept: JsonObject
}

/** UTF-16 units of one text that is kept. */
const KEPT_TEXT = 2_000
/** Levels and members that are kept. */
const KEPT_DEPTH = 6
const KEPT_MEMBERS = 200

export function hookInput(event: string, given: JsonObject): HookInput {
  const text = (name: string): string => (typeof given[name] === 'string' ? (given[name] as string) : '')
  return {
    event,
    sessionId: text('session_id'),
    cwd: text('cwd'),
    permissionMode: text('permission_mode'),
    source: text('source'),
    reason: text('reason'),
    prompt: text('prompt'),
    tool: text('tool_name'),
    toolInput: isJsonObject(given.tool_input) ? given.tool_input : {},
    toolResponse: given.tool_response,
    toolUseId: text('tool_use_id'),
    kept: cut(given, 0) as JsonObject,
  }
}

function cut(value: unknown, depth: number): unknown {
  if (typeof value === 'string')
    return value.length <= KEPT_TEXT ? value : `${value.slice(0, KEPT_TEXT)}… (${value.length} characters)`
  if (typeof value !== 'object' || value === null) return value
  if (depth >= KEPT_DEPTH) return '…'
  if (Array.isArray(value)) return value.slice(0, KEPT_MEMBERS).map((item) => cut(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, KEPT_MEMBERS)
      .map(([key, member]) => [key, cut(member, depth + 1)]),
  )
}

export interface UsedTool {
  readonly tool: string
  readonly failed: boolean
  readonly file: string | null
  readonly id: string | null
}

/** null: not counted, because there is no name, or because our own MCP child counts it. */
export function toolCallOf({ tool, toolInput, toolResponse, toolUseId }: HookInput): UsedTool | null {
  if (tool === '' || /^mcp__roomd__/.test(tool)) return null
  const file = toolInput.file_path ?? toolInput.notebook_path
  return {
    tool,
    failed: failedResponse(toolResponse),
    file: typeof file === 'string' && file !== '' ? file : null,
    id: toolUseId === '' ? null : `use ${toolUseId}`,
  }
}

function failedResponse(response: unknown): boolean {
  if (!isJsonObject(response)) return false
  return (
    response.is_error === true ||
    response.isError === true ||
    response.success === false ||
    response.status === 'error' ||
    (typeof response.error === 'string' && response.error !== '')
  )
}
