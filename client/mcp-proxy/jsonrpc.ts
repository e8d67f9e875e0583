/**
 * JSON-RPC 2.0 messages as MCP sends them on stdio. Only the envelope is looked at: what is inside is somebody else's and passes as
 * it is. Nothing here loads a schema library, because the proxy must answer before one would have loaded.
 */

export type JsonObject = { [name: string]: unknown }
export type RequestId = string | number

export interface Request {
  readonly kind: 'request'
  readonly id: RequestId
  readonly method: string
  readonly params: JsonObject | undefined
}

export interface Notification {
  readonly kind: 'notification'
  readonly method: string
  readonly params: JsonObject | undefined
}

export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

export type Outcome = { readonly result: JsonObject } | { readonly error: RpcError }

export interface Response {
  readonly kind: 'response'
  readonly id: RequestId
  readonly outcome: Outcome
}

export interface Malformed {
  readonly kind: 'malformed'
  /** Where it could be read: who waits for an answer. */
  readonly id: RequestId | null
  readonly code: typeof RpcCode.parseError | typeof RpcCode.invalidRequest
  readonly reason: string
}

export type Message = Request | Notification | Response

/** Codes of the JSON-RPC specification, and the first one that it leaves to servers. */
export const RpcCode = {
  parseError: -32700,
  invalidRequest: -32600,
  invalidParams: -32602,
  internal: -32603,
  unavailable: -32000,
} as const

/** One line of text to one message. */
export function parseMessage(line: string): Message | Malformed {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    return malformed(null, `not JSON: ${(error as Error).message}`, RpcCode.parseError)
  }
  if (Array.isArray(value)) return malformed(null, 'batches are not part of MCP; send one message a line')
  if (!isObject(value)) return malformed(null, 'a message is an object')
  const id = isRequestId(value.id) ? value.id : null
  if (value.jsonrpc !== '2.0') return malformed(id, '"jsonrpc" must be "2.0"')
  if (typeof value.method === 'string') {
    if (value.params !== undefined && !isObject(value.params)) {
      return malformed(id, '"params" must be an object')
    }
    const params = value.params as JsonObject | undefined
    if (value.id === undefined) return { kind: 'notification', method: value.method, params }
    if (id === null) return malformed(null, '"id" must be a string or a number')
    return { kind: 'request', id, method: value.method, params }
  }
  if (isObject(value.result)) {
    if (id === null) return malformed(null, 'a response needs the "id" of its request')
    return { kind: 'response', id, outcome: { result: value.result } }
  }
  if (isObject(value.error)) {
    const { code, message, data } = value.error
    if (id === null) return malformed(null, `an error that names no request: ${String(message)}`)
    const error = {
      code: typeof code === 'number' ? code : RpcCode.internal,
      message: typeof message === 'string' ? message : 'unknown error',
      ...(data === undefined ? {} : { data }),
    }
    return { kind: 'response', id, outcome: { error } }
  }
  return malformed(id, 'neither request, notification nor response')
}

/** The object to send for a message. */
export function toWire(message: Message): JsonObject {
  switch (message.kind) {
    case 'request':
      return { jsonrpc: '2.0', id: message.id, method: message.method, ...withParams(message.params) }
    case 'notification':
      return { jsonrpc: '2.0', method: message.method, ...withParams(message.params) }
    case 'response':
      return { jsonrpc: '2.0', id: message.id, ...message.outcome }
  }
}

/**
 * The id of a message of which only both ends were kept. Taken only where it stands directly beside the top level's own braces,
 * so that an `id` inside of it is never mistaken for the message's.
 */
export function idAtTheEnds(head: string, tail: string): RequestId | null {
  const id = '("(?:[^"\\\\]|\\\\.)*"|-?\\d+)'
  const version = '"jsonrpc"\\s*:\\s*"2\\.0"'
  const patterns: Array<[RegExp, string]> = [
    [new RegExp(`^\\s*\\{\\s*(?:${version}\\s*,\\s*)?"id"\\s*:\\s*${id}\\s*,`), head],
    // The last brace is the top level's, so what stands directly before it is too.
    [new RegExp(`[,{]\\s*"id"\\s*:\\s*${id}\\s*(?:,\\s*${version}\\s*)?\\}\\s*$`), tail],
  ]
  for (const [pattern, text] of patterns) {
    const found = pattern.exec(text)?.[1]
    if (found !== undefined) return JSON.parse(found) as RequestId
  }
  return null
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value))
}

function withParams(params: JsonObject | undefined): { params?: JsonObject } {
  return params === undefined ? {} : { params }
}

function malformed(
  id: RequestId | null,
  reason: string,
  code: Malformed['code'] = RpcCode.invalidRequest,
): Malformed {
  return { kind: 'malformed', id, code, reason }
}
