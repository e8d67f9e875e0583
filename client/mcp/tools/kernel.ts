/** The kernel: interrupt, restart, and what it knows of code. */
import { z } from 'zod'
import { text } from '../results/content.ts'
import { counted, plain, shorten } from '../results/model-text.ts'
import { withRoom } from './room.ts'
import { KernelShape, notebook } from './shapes.ts'
import { defineTool, destroys, reads } from './tool.ts'

export const interruptKernel = defineTool({
  name: 'interrupt_kernel',
  title: 'Interrupt the kernel',
  description:
    'Ends the execution that runs and cancels what is queued now, whoever asked for it. Variables stay. What is asked for afterwards runs.',
  annotations: destroys,
  input: z.strictObject({ notebook }),
  output: z.object({
    interrupted: z.string().nullable(),
    cancelled: z.array(z.string()),
    offer: z.literal('restart').optional(),
  }),
  async run(context, { notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      lease.show({ activity: 'interrupting the kernel' })
      const { interrupted, cancelled, offer } = await lease.room.interrupt({
        mutationId: context.mutations.next(),
      })
      const what =
        offer !== undefined
          ? 'The kernel did not stop within 5 s; it may still. restart_kernel ends it, and its variables with it.'
          : interrupted === null
            ? 'Nothing was running.'
            : `Interrupted execution ${interrupted}.`
      const rest = cancelled.length > 0 ? ` Cancelled ${counted(cancelled.length, 'queued execution')}.` : ''
      return {
        structured: { interrupted, cancelled, ...(offer === undefined ? {} : { offer }) },
        content: [text(what + rest)],
      }
    })
  },
})

export const restartKernel = defineTool({
  name: 'restart_kernel',
  title: 'Restart the kernel',
  description:
    'Ends the kernel and starts a fresh one: variables are lost, the cells and their outputs stay. What runs is interrupted, what is queued is cancelled.',
  annotations: destroys,
  input: z.strictObject({
    kernel: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('Kernelspec of the new kernel. Default: the same.'),
    reset: z
      .boolean()
      .optional()
      .describe(
        'Start a kernel although those before ran out of memory three times within 300 s. Only when the user has said so.',
      ),
    notebook,
  }),
  output: z.object({ kernel: KernelShape }),
  async run(context, { kernel: wanted, reset, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      lease.show({ activity: 'restarting the kernel' })
      const { kernel } = await lease.room.restartKernel(wanted, {
        ...(reset === undefined ? {} : { reset }),
        mutationId: context.mutations.next(),
      })
      const { kernel_id, name, state, language, pid, started_at, reason } = kernel
      return {
        structured: {
          kernel: {
            kernel_id,
            name,
            state,
            language,
            pid,
            started_at,
            ...(reason === undefined ? {} : { reason }),
          },
        },
        content: [
          text(
            `A fresh ${name} kernel is ${state}${pid === null ? '' : ` (pid ${pid})`}. Its variables are empty.`,
          ),
        ],
      }
    })
  },
})

const code = z
  .string()
  .max(1024 * 1024)
  .describe('Code, as it would stand in a cell.')
const cursor = z
  .number()
  .int()
  .min(0)
  .optional()
  .describe('Position in the code, in characters. Default: its end.')

export const inspect = defineTool({
  name: 'inspect',
  title: 'Inspect a name',
  description:
    'What the kernel knows about the name at the cursor: type, signature, documentation. Needs a kernel that runs.',
  annotations: reads,
  input: z.strictObject({ code, cursor, notebook }),
  output: z.object({ found: z.boolean(), data: z.record(z.string(), z.unknown()) }),
  async run(context, { code, cursor, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const { found, data } = await lease.room.call(
        'inspect',
        { code, cursor: cursor ?? [...code].length },
        { signal: context.signal },
      )
      const shown = data['text/plain'] ?? Object.values(data)[0]
      const body = found
        ? shorten(String(shown ?? ''), (omitted) => `${omitted} characters left out`).text
        : ''
      return {
        structured: {
          found,
          data: Object.fromEntries(
            Object.entries(data).map(([mime, value]) => [
              mime,
              typeof value === 'string' ? plain(value) : value,
            ]),
          ),
        },
        content: [text(found ? body : 'The kernel knows nothing of that name.')],
      }
    })
  },
})

export const complete = defineTool({
  name: 'complete',
  title: 'Complete a name',
  description: 'How the kernel would complete the code at the cursor. Needs a kernel that runs.',
  annotations: reads,
  input: z.strictObject({ code, cursor, notebook }),
  output: z.object({
    matches: z.array(z.string()),
    cursor_start: z.number(),
    cursor_end: z.number(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  }),
  async run(context, { code, cursor, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const completions = await lease.room.call(
        'complete',
        { code, cursor: cursor ?? [...code].length },
        { signal: context.signal },
      )
      const { matches } = completions
      const shown = matches.slice(0, 100).join('\n')
      const more = matches.length > 100 ? `\n… and ${matches.length - 100} more` : ''
      return {
        structured: { ...completions },
        content: [text(matches.length > 0 ? shown + more : 'No completions.')],
      }
    })
  },
})
