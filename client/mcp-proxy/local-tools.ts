/** Tools that the proxy answers itself, whatever becomes of the child: `reconnect`, and those of an embedding program. */
import type { JsonObject } from './jsonrpc.ts'
import type { Tool } from './tool-list.ts'

export interface LocalTool {
  readonly definition: Tool
  /** Resolves with a tool result. What it throws becomes an `internal` error result. */
  call(args: JsonObject): Promise<JsonObject>
}

export const reconnectDefinition: Tool = {
  name: 'reconnect',
  title: 'Reconnect',
  description:
    'Restarts the MCP child and rejoins the active notebook. The daemon, its kernels and variables are not touched; calls under way go on. Use it when tools keep failing although daemon_status is well, or after an upgrade of roomd.',
  // Some clients refuse a whole list in which one schema is no object.
  inputSchema: { type: 'object', properties: {}, additionalProperties: false },
  outputSchema: {
    type: 'object',
    properties: {
      restarted: { type: 'boolean' },
      version: {
        type: 'object',
        properties: { before: { type: 'string' }, after: { type: 'string' } },
        required: ['before', 'after'],
      },
      rejoin: {
        type: 'object',
        properties: {
          outcome: { type: 'string', enum: ['none', 'pending', 'succeeded', 'failed'] },
          target: { type: 'string' },
          readiness: { type: ['object', 'null'] },
          reason: { type: 'string' },
        },
        required: ['outcome'],
      },
      parked_lost: { type: 'array', items: { type: 'string' } },
      error: { type: 'object' },
    },
  },
  annotations: {
    title: 'Reconnect',
    readOnlyHint: false,
    destructiveHint: false,
    idempotentHint: true,
    openWorldHint: false,
  },
}
