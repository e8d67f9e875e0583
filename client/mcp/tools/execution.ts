/** Running cells, and what became of them. */
import { z } from 'zod'
import { RoomdError } from '../../../protocol/errors.ts'
import { type Execution, isTerminal } from '../../../protocol/notebook.ts'
import type { Client } from '../../sdk/client.ts'
import { text } from '../results/content.ts'
import { executionBlocks, executionsResult, headline } from '../results/executions.ts'
import { fullOutput as readFullOutput } from '../results/full-output.ts'
import { counted, plain } from '../results/model-text.ts'
import { structuredExecution } from '../results/structured.ts'
import { follow, followAll } from './follow.ts'
import { withRoom } from './room.ts'
import {
  cancel,
  cellId,
  ExecutionShape,
  executionId,
  fullOutput,
  notebook,
  offset,
  timeoutSecs,
} from './shapes.ts'
import { changes, defineTool, destroys, reads, runs, type ToolResult } from './tool.ts'

const onError = z
  .enum(['stop', 'continue'])
  .default('stop')
  .describe('What an error does to what is queued behind it in the same batch.')

export const executeCell = defineTool({
  name: 'execute_cell',
  title: 'Run a cell',
  description:
    'Runs a code cell and waits for its end. A cell that is queued or running already is followed instead of being run twice. Starts the kernel if there is none.',
  annotations: runs,
  input: z.strictObject({
    cell_id: cellId,
    timeout_secs: timeoutSecs(30),
    on_error: onError,
    cancel,
    notebook,
  }),
  output: ExecutionShape,
  async run(context, { cell_id, timeout_secs, on_error, cancel, notebook }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'running cell #', cellId: cell_id })
      const run = await lease.room.execute(cell_id, {
        onError: on_error,
        mutationId: context.mutations.next(),
      })
      const execution = await follow(context, lease, run, { timeoutSecs: timeout_secs, cancel })
      return executionResult(lease.client, execution, {
        now: context.clock.now(),
        ...(run.alreadyActive ? { more: 'It was queued or running already; this is that execution.' } : {}),
      })
    })
  },
})

export const runAllCells = defineTool({
  name: 'run_all_cells',
  title: 'Run all cells',
  description:
    'Runs all code cells in order and waits for the end; an error cancels the rest. wait: false queues them and returns at once.',
  annotations: runs,
  input: z.strictObject({
    timeout_secs: timeoutSecs(300),
    wait: z.boolean().default(true).describe('false: return as soon as they are queued.'),
    on_error: onError,
    cancel,
    notebook,
  }),
  output: z.object({ executions: z.array(ExecutionShape) }),
  async run(context, { timeout_secs, wait, on_error, cancel, notebook }) {
    return withRoom(context, notebook, 'edit', async (lease) => {
      lease.show({ activity: 'running all cells' })
      const all = await lease.room.runAll({ onError: on_error, mutationId: context.mutations.next() })
      const executions = await followAll(context, lease, all, {
        timeoutSecs: wait ? timeout_secs : 0,
        cancel,
      })
      const result = await executionsResult(lease.client, executions, context.clock.now())
      return { ...result, content: [text(summaryOf(executions)), ...result.content] }
    })
  },
})

function summaryOf(executions: readonly Execution[]): string {
  if (executions.length === 0) return 'There are no code cells to run.'
  const by = new Map<string, number>()
  for (const { status } of executions) by.set(status, (by.get(status) ?? 0) + 1)
  const parts = [...by].map(([status, number]) => `${number} ${status}`)
  const open = executions.some(({ status }) => !isTerminal(status))
  const more = open ? '. They go on; list_executions shows how, interrupt_kernel ends them' : ''
  return `${counted(executions.length, 'cell')}: ${parts.join(', ')}${more}.`
}

export const getResults = defineTool({
  name: 'get_results',
  title: 'Get the results of an execution',
  description:
    'State and outputs of an execution by its id, at any time: while it runs, later, after restarts, and without an active notebook.',
  annotations: reads,
  input: z.strictObject({ execution_id: executionId, full_output: fullOutput, offset }),
  output: ExecutionShape.extend({ next_offset: z.number().optional() }),
  hints: {
    notebook: 'An execution is found by its id alone.',
    cell_id: 'get_cell shows the outputs of a cell.',
  },
  async run({ daemon, sessions, clock }, { execution_id, full_output, offset }) {
    const { execution, client } = await findExecution(await clientsFor(sessions, daemon), execution_id)
    if (!full_output) return executionResult(client, execution, { now: clock.now() })
    const full = await readFullOutput(client, execution, offset)
    const more =
      full.next_offset === undefined
        ? []
        : [
            `(more: get_results {"execution_id": "${execution_id}", "full_output": true, "offset": ${full.next_offset}})`,
          ]
    return {
      structured: {
        ...structuredExecution(execution, full.outputs),
        ...(full.next_offset === undefined ? {} : { next_offset: full.next_offset }),
      },
      content: [
        text(
          [headline(execution, clock.now()), ...full.texts.map((part) => plain(part)), ...more].join('\n'),
        ),
      ],
    }
  },
})

/** The local daemon first; executions of a remote notebook are with its own. */
async function clientsFor(
  sessions: { active: { client: Client } | null },
  daemon: { local(): Promise<Client> },
): Promise<Client[]> {
  const local = await daemon.local()
  const active = sessions.active?.client
  return active && active !== local ? [active, local] : [local]
}

async function findExecution(
  clients: readonly Client[],
  execution_id: string,
): Promise<{ execution: Execution; client: Client }> {
  let missing: unknown
  for (const client of clients) {
    try {
      return { execution: (await client.call('get_execution', { execution_id })).execution, client }
    } catch (error) {
      if (!(error instanceof RoomdError) || error.code !== 'not_found') throw error
      missing = error
    }
  }
  throw missing
}

export const listExecutions = defineTool({
  name: 'list_executions',
  title: 'List executions',
  description: 'The newest executions of the notebook, whoever asked for them, without their outputs.',
  annotations: reads,
  input: z.strictObject({
    limit: z.number().int().min(1).max(500).default(50).describe('At most so many, the newest.'),
    notebook,
  }),
  output: z.object({ executions: z.array(ExecutionShape) }),
  async run(context, { limit, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const { executions } = await lease.room.call('list_executions', { limit }, { signal: context.signal })
      const lines = executions.map(
        (execution) => `${headline(execution, context.clock.now()).split('\n', 1)[0]}, by ${execution.by}`,
      )
      return {
        structured: { executions: executions.map((execution) => structuredExecution(execution)) },
        content: [text(lines.length > 0 ? lines.join('\n') : 'Nothing has run in this notebook yet.')],
      }
    })
  },
})

export const cancelExecution = defineTool({
  name: 'cancel_execution',
  title: 'Cancel an execution',
  description:
    'Cancels a queued execution, or interrupts it if it runs. One that has ended is answered as it is.',
  annotations: destroys,
  input: z.strictObject({ execution_id: executionId, notebook }),
  output: ExecutionShape,
  async run(context, { execution_id, notebook }) {
    const { sessions, clock, mutations, daemon } = context
    const named = notebook ?? (await notebookOf(context, execution_id))
    return withRoom(context, named, 'read', async (lease) => {
      lease.show({ activity: 'cancelling an execution' })
      await lease.room.call('cancel_execution', { execution_id }, { mutationId: mutations.next() })
      const { execution } = await findExecution(await clientsFor(sessions, daemon), execution_id)
      return executionResult(lease.client, execution, { now: clock.now() })
    })
  },
})

export const sendInput = defineTool({
  name: 'send_input',
  title: 'Answer input()',
  description:
    'Answers code that waits for input (status waiting_for_input). The first answer of anybody wins. get_results tells how the execution goes on.',
  annotations: changes,
  input: z.strictObject({
    execution_id: executionId,
    value: z
      .string()
      .max(1024 * 1024)
      .describe('The line of text, without a line end.'),
    notebook,
  }),
  output: z.object({ accepted: z.literal(true) }),
  async run(context, { execution_id, value, notebook }) {
    return withRoom(context, notebook ?? (await notebookOf(context, execution_id)), 'read', async (lease) => {
      lease.show({
        activity: 'answering input of cell #',
        cellId: lease.room.state.execution(execution_id)?.cell_id ?? undefined,
      })
      const { accepted } = await lease.room.sendInput(execution_id, value, {
        mutationId: context.mutations.next(),
      })
      return {
        structured: { accepted },
        content: [text(`Accepted. get_results {"execution_id": "${execution_id}"} shows how it goes on.`)],
      }
    })
  },
})

/** An execution belongs to a notebook; which one need not be said, unless it is another daemon's. */
async function notebookOf(
  { daemon, sessions }: Parameters<typeof executeCell.run>[0],
  execution_id: string,
): Promise<string | undefined> {
  const { active } = sessions
  if (active?.room.state.execution(execution_id)) return undefined
  if (active?.origin === 'remote') return undefined
  const client = await daemon.local()
  const { notebook_id } = (await client.call('get_execution', { execution_id })).execution
  return notebook_id
}

export async function executionResult(
  client: Client,
  execution: Execution,
  options: { now: number; more?: string },
): Promise<ToolResult> {
  return {
    structured: structuredExecution(execution),
    content: await executionBlocks(client, execution, options),
  }
}
