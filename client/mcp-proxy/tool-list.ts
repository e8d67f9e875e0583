/**
 * The tools as the client is told them. The build writes `mcp-tools.json` beside the programs: what the child of the same build
 * answers to `initialize` and `tools/list`. So both are answered before a child exists; a child that turns out to offer something
 * else is believed, unless its list is empty.
 */
import { readFileSync } from 'node:fs'
import { isObject, type JsonObject } from './jsonrpc.ts'

export interface Tool extends JsonObject {
  readonly name: string
  readonly inputSchema: JsonObject
}

/** Answers of a build: `mcp-tools.json`. */
export interface Advertised {
  readonly serverInfo: JsonObject
  readonly capabilities: JsonObject
  readonly instructions: string | undefined
  readonly tools: readonly Tool[]
}

export type ListChange = 'same' | 'superset' | 'incompatible'

/** null: the file is missing or not what a build writes; the child is asked instead. */
export function readAdvertised(file: string): Advertised | null {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    // Missing or cut off while a build replaces it: the same list comes from the child, only later.
    return null
  }
  if (!isObject(value) || !isObject(value.serverInfo)) return null
  const tools = toolsOf(value)
  if (tools === null || tools.length === 0) return null
  return {
    serverInfo: value.serverInfo,
    capabilities: isObject(value.capabilities) ? value.capabilities : {},
    instructions: typeof value.instructions === 'string' ? value.instructions : undefined,
    tools,
  }
}

/** The tools of a `tools/list` result; null when it is none. Entries without name or schema are left out. */
export function toolsOf(result: JsonObject): Tool[] | null {
  if (!Array.isArray(result.tools)) return null
  return result.tools.filter(
    (tool): tool is Tool => isObject(tool) && typeof tool.name === 'string' && isObject(tool.inputSchema),
  )
}

/** By names: a client that keeps to the old list is served by a superset, not by a list that lacks or renames a tool. */
export function compareNames(before: readonly Tool[], after: readonly Tool[]): ListChange {
  const old = new Set(before.map((tool) => tool.name))
  const now = new Set(after.map((tool) => tool.name))
  for (const name of old) if (!now.has(name)) return 'incompatible'
  return now.size === old.size ? 'same' : 'superset'
}

/** Whether a client would see a difference: names, schemas, texts; not the order. */
export function differs(before: readonly Tool[], after: readonly Tool[]): boolean {
  const text = (tools: readonly Tool[]) =>
    JSON.stringify([...tools].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)))
  return text(before) !== text(after)
}

/** A tool that does not say it only reads may have had an effect. */
export function mutates(tool: Tool | undefined): boolean {
  return !(tool !== undefined && isObject(tool.annotations) && tool.annotations.readOnlyHint === true)
}

/** Whether the tool takes `notebook`, and so can be told which room it was meant for. */
export function takesNotebook(tool: Tool | undefined): boolean {
  const properties = tool?.inputSchema.properties
  return isObject(properties) && isObject(properties.notebook)
}
