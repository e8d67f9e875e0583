/** Tools that the proxy answers itself, whatever becomes of the child: `reconnect`, and those of an embedding program. */
import type { JsonObject } from './jsonrpc.ts'
import type { Tool } from './tool-list.ts'

export interface LocalTool {
  readonly definition: Tool
  /** Resolves with a tool result. What it throws becomes an `internal` error result. */
  call(args: JsonObject): Promise<JsonObject>
}
