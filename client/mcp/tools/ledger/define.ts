/**
 * Tools of the ledger: the daemon's method of the same name, with words for the model. They answer as the reference does: one JSON
 * object, as text (two spaces of indent, ASCII) and structured; what a caller did wrong is in it, not an error of MCP.
 */
import { z } from 'zod'
import { type LedgerMethod, ledgerMethods } from '../../../../protocol/ledger.ts'
import type { MethodParams } from '../../../../protocol/methods.ts'
import { text } from '../../results/content.ts'
import { type Annotations, defineTool, type Tool } from '../tool.ts'

type Params<M extends LedgerMethod> = (typeof ledgerMethods)[M]['params']['shape']

export interface LedgerToolWords<M extends LedgerMethod> {
  readonly title: string
  readonly description: string
  readonly annotations: Annotations
  /** What each argument means. */
  readonly arguments: { readonly [Name in keyof Params<M>]: string }
}

export function ledgerTool<M extends LedgerMethod>(name: M, words: LedgerToolWords<M>): Tool {
  const { params, result, mutates } = ledgerMethods[name]
  const meanings = words.arguments as Readonly<Record<string, string>>
  const shape = Object.fromEntries(
    Object.entries(params.shape as Record<string, z.ZodType>).map(([key, schema]) => [
      key,
      schema.describe(meanings[key] ?? ''),
    ]),
  )
  return defineTool({
    name,
    title: words.title,
    description: words.description,
    annotations: words.annotations,
    input: z.strictObject(shape),
    output: result,
    booleansAsNumbers: true,
    async run({ daemon, mutations, signal, record }, args) {
      const client = await daemon.local()
      const structured = (await client.call(name, args as MethodParams<M>, {
        signal,
        ...(mutates ? { mutationId: mutations.next() } : {}),
      })) as Record<string, unknown>
      if (name === 'session_create' && structured.success === true) await record?.begun()
      return { structured, content: [text(asciiJson(structured))] }
    },
  })
}

/** Escapes what is not ASCII, as the reference's texts do. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
