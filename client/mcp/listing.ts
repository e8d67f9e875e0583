/**
 * What the server says of itself: name, capabilities, instructions, tools. Plain JSON, made from the table of tools; the build writes
 * it to `mcp-tools.json`, from which the proxy answers before any child runs. So it depends on nothing but this program.
 */
import { z } from 'zod'
import { VERSION } from '../../protocol/version.ts'
import { ErrorShape } from './tools/shapes.ts'
import { tools } from './tools/table.ts'
import type { Tool } from './tools/tool.ts'

export const serverInfo = { name: 'roomd', title: `roomd ${VERSION}`, version: VERSION }

export const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: false },
}

export const instructions = `roomd keeps live Jupyter notebooks that you share with people and other agents: the cells, a kernel with its variables, and every output. They outlive this connection.

- One notebook is active on this connection. list_active_notebooks or list_notebooks find one, connect_notebook makes it active (and parks the one before), create_notebook makes a new one. Every notebook tool also takes "notebook" (id or path) to work on another without switching.
- Cells are named by cell_id, which never changes. get_all_cells lists them; others may edit at the same time, so read a cell before you replace its whole text. replace_match changes one place.
- execute_cell waits timeout_secs and then returns the state it has; what runs goes on. get_results reads an execution by its execution_id at any time, also after restarts. Nothing runs twice: a cell that runs already is followed.
- Long outputs are shown by their beginning and end; "full_output": true gives all, in parts.
- status waiting_for_input means that the code asked for input: send_input answers.
- Errors carry a code, whether trying again helps, and often the next call to make.
- session_* tools keep a record of the work: session_create at its beginning, session_finalize at its end. With an empty context (after /clear) session_get_context tells what was done and which connect_notebook call goes back.
- Cells are also resources: roomd://notebooks/{notebook_id}/cells; subscriptions tell when they change.`

export interface Listing {
  readonly serverInfo: typeof serverInfo
  readonly capabilities: typeof capabilities
  readonly instructions: string
  readonly tools: readonly ListedTool[]
}

export interface ListedTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: { type: 'object'; [key: string]: unknown }
  readonly outputSchema: { type: 'object'; [key: string]: unknown }
  readonly annotations: Record<string, unknown>
}

let made: Listing | undefined

export function listing(): Listing {
  made ??= { serverInfo, capabilities, instructions, tools: tools.map(listed) }
  return made
}

function listed(tool: Tool): ListedTool {
  const { name, title, description, annotations, input } = tool
  return {
    name,
    title,
    description,
    inputSchema: { ...jsonSchema(input), type: 'object' },
    outputSchema: resultSchema(tool),
    annotations: { title, ...annotations },
  }
}

/** Results and error results have one schema between them: clients check both against it. */
function resultSchema({ output }: Tool): ListedTool['outputSchema'] {
  const { properties, required, ...rest } = jsonSchema(output) as {
    properties?: Record<string, unknown>
    required?: string[]
  }
  return {
    ...rest,
    type: 'object',
    properties: { ...properties, error: errorSchema(properties?.error) },
    anyOf: [{ required: required ?? [] }, { required: ['error'] }],
  }
}

let errorShape: Record<string, unknown> | undefined

/** Tools of the ledger tell failures of their own as text. */
function errorSchema(own: unknown): unknown {
  errorShape ??= jsonSchema(ErrorShape)
  return own === undefined ? errorShape : { anyOf: [own, errorShape] }
}

/** Draft 7, which all validators in use read; objects of results may grow. Without what goes without saying: models read this. */
function jsonSchema(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, {
    target: 'draft-7',
    io: 'input',
    override: ({ jsonSchema: made }) => {
      delete made.propertyNames
      if (made.maximum === Number.MAX_SAFE_INTEGER) delete made.maximum
    },
  })
  return json
}
