/** Content blocks of a tool result, as MCP has them. */
export type ContentBlock =
  | { type: 'text'; text: string }
  | { type: 'image'; data: string; mimeType: string }
  | { type: 'resource_link'; uri: string; name: string; mimeType?: string; description?: string }

export const text = (value: string): ContentBlock => ({ type: 'text', text: value })
