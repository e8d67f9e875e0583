/** Sessions: which notebook this connection works on. */
import { z } from 'zod'
import { RoomdError } from '../../../protocol/errors.ts'
import { connectedResult } from '../results/connected.ts'
import { text } from '../results/content.ts'
import { pathOf, type Target } from '../sessions/target.ts'
import { withRoom } from './room.ts'
import { ConnectedShape, notebook } from './shapes.ts'
import { changes, defineTool, settles, type ToolContext } from './tool.ts'

export const connectNotebook = defineTool({
  name: 'connect_notebook',
  title: 'Connect to a notebook',
  description:
    'Opens a notebook and makes it the active one: by file path, by notebook_id, or by target (path, id, or ws(s)://HOST/?notebook=ID). The one that was active is parked. Answers as soon as the cells can be shown; the rest becomes ready by itself.',
  annotations: settles,
  input: z.strictObject({
    path: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe('An .ipynb file that exists; relative to the working directory.'),
    notebook_id: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe('Id of a notebook that the daemon knows. Never makes a new one.'),
    target: z.string().min(1).max(4096).optional().describe('Path, id or ws(s):// URL.'),
    convert: z.boolean().default(false).describe('Upgrade a file of notebook format 3 or older.'),
    scope: z
      .literal('viewer')
      .optional()
      .describe('Only to look: for a file that another daemon has open. Default: everything is allowed.'),
  }),
  output: ConnectedShape,
  async run({ sessions, signal }, args) {
    const target = readTarget(sessions, args)
    const { convert, scope } = args
    return connectedResult(await sessions.connect(target, { signal, convert, scope }))
  },
})

function readTarget(
  sessions: ToolContext['sessions'],
  args: { path?: string | undefined; notebook_id?: string | undefined; target?: string | undefined },
): Target {
  const given = [args.path, args.notebook_id, args.target].filter((value) => value !== undefined)
  const [only] = given
  if (only === undefined || given.length > 1) {
    throw new RoomdError(
      'invalid_argument',
      'connect_notebook takes exactly one of path, notebook_id and target',
      { next: { tool: 'list_notebooks', arguments: {} } },
    )
  }
  const target = sessions.target(args.path !== undefined ? asPath(args.path) : only)
  if (args.notebook_id !== undefined && target.kind !== 'id') {
    throw new RoomdError(
      'invalid_argument',
      `"${args.notebook_id}" is no notebook id (a UUID); a file is named by "path"`,
      { next: { tool: 'list_notebooks', arguments: {} } },
    )
  }
  return target
}

/** A file whose name looks like an id or a URL is still a file. */
function asPath(path: string): string {
  return /^(file:|~|[\\/.])/.test(path) ? path : `./${path}`
}

export const createNotebook = defineTool({
  name: 'create_notebook',
  title: 'Create a notebook',
  description:
    'Makes a new, empty notebook and makes it the active one. With a path the file is written at once; without, it lives in the daemon until save_notebook gives it a path.',
  annotations: changes,
  input: z.strictObject({
    path: z.string().min(1).max(4096).optional().describe('Where it is saved; must not exist yet.'),
    kernel: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('Kernelspec, e.g. python3, ir, javascript. Default: the best there is.'),
    working_dir: z
      .string()
      .min(1)
      .max(4096)
      .optional()
      .describe(
        "Folder its code runs in. Default: the file's folder; without a path, this server's working directory.",
      ),
    ephemeral: z.boolean().optional().describe('Not kept after its kernel has ended.'),
  }),
  output: ConnectedShape,
  hints: { runtime: 'The kernel is named by "kernel".', language: 'The kernel is named by "kernel".' },
  async run({ sessions, signal, mutations, cwd }, { path, kernel, working_dir, ephemeral }) {
    const folder = working_dir ?? (path === undefined ? cwd : undefined)
    const connected = await sessions.create(
      {
        ...(path === undefined ? {} : { path: pathOf(path, cwd) }),
        ...(kernel === undefined ? {} : { kernel }),
        ...(folder === undefined ? {} : { working_dir: pathOf(folder, cwd) }),
        ...(ephemeral === undefined ? {} : { ephemeral }),
      },
      { signal, mutationId: mutations.next() },
    )
    return connectedResult(connected)
  },
})

export const disconnectNotebook = defineTool({
  name: 'disconnect_notebook',
  title: 'Disconnect from a notebook',
  description:
    'Leaves the active notebook, or forgets a parked one. The notebook, its kernel and what runs in it go on.',
  annotations: settles,
  input: z.strictObject({ notebook }),
  output: z.object({
    notebook_id: z.string().optional(),
    path: z.string().optional(),
    was: z.enum(['active', 'parked', 'pending_rejoin']),
  }),
  hints: { notebook_id: 'A notebook is named by "notebook" (id or path).' },
  async run({ sessions }, { notebook }) {
    const target = notebook === undefined ? undefined : sessions.target(notebook)
    const { notebook_id, path, was } = sessions.disconnect(target)
    const what = {
      active: 'It was the active notebook; none is active now.',
      parked: 'It was parked and is forgotten.',
      pending_rejoin: 'It was about to be rejoined; that is called off.',
    }
    return {
      structured: {
        ...(notebook_id === null ? {} : { notebook_id }),
        ...(path === null ? {} : { path }),
        was,
      },
      content: [text(`Disconnected from ${path ?? notebook_id ?? 'the notebook'}. ${what[was]}`)],
    }
  },
})

export const saveNotebook = defineTool({
  name: 'save_notebook',
  title: 'Save the notebook',
  description:
    'Writes the notebook to its file now (it is also saved by itself), or to another path, to which it belongs from then on.',
  annotations: settles,
  input: z.strictObject({
    path: z.string().min(1).max(4096).optional().describe('Save as. Relative to the working directory.'),
    notebook,
  }),
  output: z.object({
    notebook_id: z.string(),
    path: z.string(),
    outcome: z.enum(['saved', 'already_current']),
    doc_seq: z.number(),
    event_seq: z.number(),
  }),
  async run(context, { path, notebook }) {
    return withRoom(context, notebook, 'read', async (lease) => {
      const saved = await lease.room.save(path === undefined ? undefined : pathOf(path, context.cwd), {
        mutationId: context.mutations.next(),
      })
      const how = saved.outcome === 'saved' ? 'Saved' : 'Already up to date'
      return { structured: { ...saved }, content: [text(`${how}: ${saved.path}`)] }
    })
  },
})
