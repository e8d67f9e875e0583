/** One tool call from its name and raw arguments to its result; whatever fails becomes an error result, never a failed request. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { ContentBlock } from '../results/content.ts'
import { errorResult, type NextCall } from '../results/errors.ts'
import { readArguments } from './arguments.ts'
import { findTool, tools } from './table.ts'
import type { ToolContext } from './tool.ts'

export interface CallResult {
  readonly isError?: true
  readonly structuredContent: Record<string, unknown>
  readonly content: ContentBlock[]
}

export async function callTool(name: string, given: unknown, context: ToolContext): Promise<CallResult> {
  let args: Record<string, unknown> = {}
  try {
    const tool = findTool(name)
    if (!tool) throw unknownTool(name)
    args = readArguments(tool, given)
    const { structured, content } = await tool.run(context, args)
    return { structuredContent: structured, content }
  } catch (error) {
    if (!(error instanceof RoomdError)) {
      // A defect: its place is worth more in the log than to the model.
      process.stderr.write(
        `roomd mcp: ${name} failed: ${error instanceof Error ? error.stack : String(error)}\n`,
      )
    }
    const { isError, structuredContent, content } = errorResult(error, (next) =>
      sameNotebook(next, args.notebook),
    )
    return { isError, structuredContent, content }
  }
}

/** A call that is advised after one that named its notebook names it too. */
function sameNotebook(next: NextCall, notebook: unknown): NextCall {
  const takesIt = notebook !== undefined && 'notebook' in (findTool(next.tool)?.input.shape ?? {})
  return takesIt ? { ...next, arguments: { notebook, ...next.arguments } } : next
}

function unknownTool(name: string): RoomdError {
  const names = tools.map((tool) => tool.name)
  const like = names.filter((known) => known.includes(name) || name.includes(known))
  return new RoomdError(
    'not_found',
    `there is no tool "${name}". ${like.length > 0 ? `Perhaps ${like.join(' or ')}.` : `There are ${names.join(', ')}.`}`,
    { cause: { tools: names } },
  )
}
