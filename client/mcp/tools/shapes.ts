/** Schemas that tools share: arguments that mean the same everywhere, and the shapes of results. */
import { z } from 'zod'
import { executionStatuses, OutputGap, Readiness, SourceState } from '../../../protocol/notebook.ts'

// --- arguments -------------------------------------------------------------------------------------------------------

export const notebook = z
  .string()
  .min(1)
  .max(4096)
  .optional()
  .describe('Id or path of another notebook to work on. Default: the active one; it stays active.')

export const cellId = z.string().min(1).max(128).describe('Id of the cell, as get_all_cells lists it.')

export const executionId = z.string().min(1).max(64).describe('Id of the execution.')

export const timeoutSecs = (seconds: number) =>
  z
    .number()
    .min(0)
    .max(7 * 86_400)
    .default(seconds)
    .describe(
      'Seconds to wait for the end. When they have passed the call returns the present state and the execution goes on. 0 returns at once.',
    )

export const andRun = z
  .boolean()
  .default(false)
  .describe('Run the cell afterwards and wait, as execute_cell does.')

export const cancel = z
  .enum(['interrupt', 'detach'])
  .default('interrupt')
  .describe('What cancelling this call does to the execution it started: interrupt it, or let it go on.')

export const fullOutput = z
  .boolean()
  .default(false)
  .describe('Give all text, up to 1 MiB a call, instead of the beginning and the end.')

export const offset = z
  .number()
  .int()
  .min(0)
  .default(0)
  .describe('With full_output: the next_offset of the call before.')

// --- results ---------------------------------------------------------------------------------------------------------

/** A text, or the two ends of one over 8 KiB. `size` in bytes, `chars` in UTF-16 units. */
export const LongText = z.union([
  z.string(),
  z.object({
    size: z.number(),
    chars: z.number().optional(),
    head: z.string(),
    tail: z.string(),
    blob: z.string().optional(),
  }),
])

export const OutputShape = z.object({
  output_type: z.enum(['stream', 'display_data', 'execute_result', 'error']),
  name: z.string().optional(),
  text: LongText.optional(),
  data: z.record(z.string(), z.unknown()).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  execution_count: z.number().nullable().optional(),
  ename: z.string().optional(),
  evalue: z.string().optional(),
  traceback: z.array(z.string()).optional(),
})

export const ExecutionShape = z.object({
  execution_id: z.string(),
  cell_id: z.string().optional(),
  status: z.enum(executionStatuses),
  execution_count: z.number().nullable(),
  outputs: z.array(OutputShape),
  /** The outputs are not in this result; get_results has them. */
  outputs_omitted: z.boolean().optional(),
  truncated: z.boolean(),
  /** Where output is missing that cannot be had any more. */
  gaps: z.array(OutputGap).optional(),
  by: z.string().optional(),
  /** Epoch milliseconds. */
  started_at: z.number().optional(),
  finished_at: z.number().optional(),
  prompt: z.string().optional(),
  password: z.boolean().optional(),
  reason: z.string().optional(),
})

export const CellShape = z.object({
  cell_id: z.string(),
  cell_type: z.string(),
  source: LongText,
  metadata: z.record(z.string(), z.unknown()).optional(),
  execution_id: z.string().optional(),
  execution_count: z.number().nullable().optional(),
  status: z.enum(executionStatuses).optional(),
  outputs: z.array(OutputShape),
})

export const CellSummaryShape = z.object({
  cell_id: z.string(),
  cell_type: z.string(),
  preview: z.string(),
  lines: z.number(),
  execution_id: z.string().optional(),
  execution_count: z.number().nullable().optional(),
  status: z.enum(executionStatuses).optional(),
  outputs: z.array(z.string()).optional(),
})

export const ChangedCellShape = z.object({
  cell: CellShape,
  execution: ExecutionShape.optional(),
  diff: z.string().optional(),
})

const KernelBrief = z.object({ name: z.string(), state: z.string(), language: z.string() })

export const ConnectedShape = z.object({
  notebook_id: z.string(),
  path: z.string().optional(),
  status: z.enum(['connected', 'already_connected', 'resumed']),
  activation_generation: z.number(),
  daemon: z.object({ version: z.string(), pid: z.number(), boot_id: z.string() }),
  source_state: SourceState,
  source_reason: z.string().optional(),
  readiness: Readiness.omit({ source: true }),
  capabilities: z.object({ read: z.boolean(), mutate: z.boolean(), execute: z.boolean() }),
  kernel: KernelBrief.optional(),
  doc_seq: z.number(),
  event_seq: z.number(),
  peers: z.array(z.object({ label: z.string(), kind: z.string(), scope: z.string() })),
  cells: z.array(CellSummaryShape),
  /** When `cells` holds the first ones only. */
  total_cells: z.number().optional(),
  /** The notebook that was active before; parked now. */
  switched_from: z.object({ notebook_id: z.string(), path: z.string().optional() }).optional(),
  /** What happened since this connection left the notebook. */
  since: z
    .object({
      executions: z.array(ExecutionShape),
      edits: z.number(),
      editors: z.array(z.object({ by: z.string(), edits: z.number() })),
    })
    .optional(),
})

export const KernelShape = z.object({
  kernel_id: z.string().optional(),
  name: z.string(),
  state: z.string(),
  language: z.string(),
  pid: z.number().nullable(),
  started_at: z.number().nullable().optional(),
  reason: z.string().optional(),
})

export const RoomShape = z.object({
  notebook_id: z.string(),
  path: z.string().nullable(),
  title: z.string(),
  kind: z.string(),
  state: z.string(),
  source_state: SourceState,
  peers: z.array(
    z.object({ label: z.string(), kind: z.string(), scope: z.string(), client_instance: z.string() }),
  ),
  kernel: z.object({ name: z.string(), state: z.string(), pid: z.number().nullable() }).nullable(),
  queue: z.object({ running: z.number(), queued: z.number() }),
  memory: z.number().nullable(),
})

export const ErrorShape = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  cause: z.unknown().optional(),
  next: z.object({ tool: z.string(), arguments: z.record(z.string(), z.unknown()) }).optional(),
})
