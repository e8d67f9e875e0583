/** What a tool is: its words for the model, its schemas, and its handler. */
import type { z } from 'zod'
import type { Clock } from '../../../protocol/clock.ts'
import type { Activities } from '../activities.ts'
import type { DaemonLink } from '../daemon-link.ts'
import type { CallRecord } from '../ledger/recorder.ts'
import type { MutationBlock } from '../mutation-block.ts'
import type { ContentBlock } from '../results/content.ts'
import type { Sessions } from '../sessions/sessions.ts'

/** Asks the user for a line of text; null: refused, or the client cannot ask. */
export type AskUser = (prompt: string, signal: AbortSignal) => Promise<string | null>

/** Shows an address to the user; false: nothing here can. */
export type ShowAddress = (url: string) => Promise<boolean>

export interface ToolContext {
  readonly sessions: Sessions
  readonly daemon: DaemonLink
  readonly activities: Activities
  readonly clock: Clock
  /** Folder that relative paths start from. */
  readonly cwd: string
  /** Aborted when the caller cancelled the call. */
  readonly signal: AbortSignal
  readonly mutations: MutationBlock
  /** Tells the caller of new output while the call goes on; null: it does not want to know. */
  readonly progress: ((text: string) => void) | null
  readonly ask: AskUser | null
  readonly show: ShowAddress | null
  /** Tells the ledger what the call did; null: nobody keeps count (a shell). */
  readonly record: CallRecord | null
}

export interface ToolResult {
  readonly structured: Record<string, unknown>
  readonly content: ContentBlock[]
}

export interface Annotations {
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}

export interface ToolDefinition<Input extends z.ZodObject = z.ZodObject> {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly annotations: Annotations
  /** Strict: its shape names every argument there is. */
  readonly input: Input
  /** Of a result that is no error. */
  readonly output: z.ZodObject
  /** What to tell who passes an argument that does not exist, by its name. */
  readonly hints?: Readonly<Record<string, string>>
  /** Takes true and false for 1 and 0, as the Python server does whose tool it is. */
  readonly booleansAsNumbers?: boolean
  readonly run: (context: ToolContext, args: z.output<Input>) => Promise<ToolResult>
}

/** A tool of the table: its handler takes what its own schema has parsed. */
export type Tool = Omit<ToolDefinition, 'run'> & {
  readonly run: (context: ToolContext, args: Record<string, unknown>) => Promise<ToolResult>
}

export function defineTool<Input extends z.ZodObject>(tool: ToolDefinition<Input>): Tool {
  // Dispatch parses with `input` before it calls `run`; the compiler cannot see that the two belong together.
  return tool as unknown as Tool
}

/** Reads, changes nothing. */
export const reads: Annotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}
/** Changes something that can be changed back. */
export const changes: Annotations = { ...reads, readOnlyHint: false, idempotentHint: false }
/** As `changes`; doing it twice is doing it once. */
export const settles: Annotations = { ...changes, idempotentHint: true }
/** Takes something away. */
export const destroys: Annotations = { ...changes, destructiveHint: true }
/** Runs the user's code, which can do anything. */
export const runs: Annotations = { ...destroys, openWorldHint: true }
