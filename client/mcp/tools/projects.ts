/** Projects: repositories whose rooms are made ahead of need, and getting one of those rooms. */
import { z } from 'zod'
import type { Claim, PoolProject, ProjectSummary } from '../../../protocol/projects.ts'
import { connectedResult } from '../results/connected.ts'
import { text } from '../results/content.ts'
import { counted, sizeOf } from '../results/model-text.ts'
import { pathOf } from '../sessions/target.ts'
import { ConnectedShape } from './shapes.ts'
import { changes, defineTool, reads } from './tool.ts'

const ProjectShape = z.object({
  id: z.string(),
  name: z.string(),
  path: z.string(),
  trusted: z.boolean(),
  status: z.enum(['cloning', 'ready', 'error']),
  reason: z.string().optional(),
})

const ClaimShape = ConnectedShape.partial().extend({
  notebook_id: z.string(),
  project: ProjectShape,
  workspace: z.string(),
  branch: z.string(),
  claim: z.enum(['draft', 'warm', 'joined', 'cold']),
  standby: z.enum(['ready', 'booting', 'missing']),
  stale: z.string().optional(),
  fetch_ms: z.number(),
  uncommitted: z.number(),
  notes: z.array(z.string()),
})

const PoolShape = z.object({
  project: z.string(),
  name: z.string(),
  path: z.string(),
  status: z.string(),
  reason: z.string().optional(),
  trusted: z.boolean(),
  depth: z.number(),
  slots: z.array(
    z.object({
      state: z.string(),
      notebook_id: z.string(),
      standby: z.string(),
      pid: z.number().optional(),
    }),
  ),
  warming: z.boolean(),
  retry_in_ms: z.number().optional(),
})

export const listProjects = defineTool({
  name: 'list_projects',
  title: 'List projects',
  description:
    'Repositories that rooms can be claimed of (claim_room), whether each is usable, and whether its code may run. A person adds and trusts projects: roomd project add PATH, roomd project trust NAME.',
  annotations: reads,
  input: z.strictObject({}),
  output: z.object({ projects: z.array(ProjectShape) }),
  async run({ daemon }) {
    const client = await daemon.local()
    const { projects } = await client.call('list_projects', {})
    return {
      structured: { projects },
      content: [
        text(
          projects.length > 0
            ? projects.map(projectLine).join('\n')
            : 'There are no projects. A person adds one with: roomd project add PATH',
        ),
      ],
    }
  },
})

export const claimRoom = defineTool({
  name: 'claim_room',
  title: 'Claim a room of a project',
  description:
    'Gives a fresh room of a project with a checkout of its own on a branch of its own, usually with the kernel running and its imports done, and makes it the active notebook. Work there does not touch the working copy; commit in the workspace, and the user fetches the branch.',
  annotations: changes,
  input: z.strictObject({
    project: z
      .string()
      .min(1)
      .max(4096)
      .describe('Path, id or name of the project; list_projects shows them.'),
    interactive: z
      .boolean()
      .default(false)
      .describe('A person waits for it: an own room in which nothing has happened yet may be given again.'),
    force_fetch: z.boolean().default(false).describe('Fetch even if that was done less than a minute ago.'),
    skip_warm: z.boolean().default(false).describe('Never a room that was made ahead of need.'),
    activate: z.boolean().default(true).describe('Make it the active notebook.'),
  }),
  output: ClaimShape,
  hints: { path: 'The project is named by "project" (path, id or name).' },
  async run({ daemon, sessions, signal, mutations, cwd }, { activate, project, ...request }) {
    const client = await daemon.local()
    const own = sessions.active?.notebookId
    const claim = await client.call(
      'claim_room',
      { ...request, project: placeOf(project, cwd), exclude: own === undefined ? [] : [own] },
      { signal, mutationId: mutations.next() },
    )
    const { project: summary, ...rest } = claim
    const structured = { ...rest, project: projectOf(summary) }
    if (!activate) return { structured, content: [text(claimText(claim).join('\n'))] }
    const connected = connectedResult(
      await sessions.connect({ kind: 'id', id: claim.notebook_id }, { signal }),
    )
    return {
      structured: { ...connected.structured, ...structured },
      content: [text(claimText(claim).join('\n')), ...connected.content],
    }
  },
})

export const poolStatus = defineTool({
  name: 'pool_status',
  title: 'Status of the warm pool',
  description:
    'Rooms that wait to be claimed, for each project, and why there are none where there are none.',
  annotations: reads,
  input: z.strictObject({}),
  output: z.object({
    projects: z.array(PoolShape),
    memory: z.object({ used: z.number().nullable(), budget: z.number() }),
  }),
  async run({ daemon }) {
    const client = await daemon.local()
    const { projects, memory } = await client.call('pool_status', {})
    const used = memory.used === null ? 'not measured yet' : sizeOf(memory.used)
    const lines = [
      ...(projects.length > 0 ? projects.map(poolLine) : ['There are no projects.']),
      `Memory of kernels: ${used}, budget ${sizeOf(memory.budget)}.`,
    ]
    return { structured: { projects, memory }, content: [text(lines.join('\n'))] }
  },
})

function projectOf({ id, name, path, trusted, status, reason }: ProjectSummary) {
  return { id, name, path, trusted, status, ...(reason === undefined ? {} : { reason }) }
}

function projectLine({ id, name, path, trusted, status, reason }: ProjectSummary): string {
  const state = [status, trusted ? 'trusted' : 'not trusted: nothing of it runs'].join(', ')
  return `${name}  ${path}  (${id.slice(0, 8)}) ${state}${reason === undefined ? '' : `: ${reason}`}`
}

function claimText(claim: Claim): string[] {
  const { notebook_id, project, workspace, branch, claim: how, standby, stale, uncommitted, notes } = claim
  const kernel = { ready: 'its kernel runs', booting: 'its kernel is starting', missing: 'no kernel yet' }[
    standby
  ]
  const lines = [
    `Claimed a room of ${project.name} (${how}; ${kernel}): notebook_id ${notebook_id}.`,
    `Workspace ${workspace}, branch ${branch}.`,
  ]
  if (stale !== undefined) lines.push(`It may be old: ${stale}`)
  if (uncommitted > 0)
    lines.push(
      `${counted(uncommitted, 'uncommitted file')} of the working copy ${uncommitted === 1 ? 'is' : 'are'} not in this workspace.`,
    )
  if (!project.trusted)
    lines.push(
      `The project is not trusted: cells cannot run before a person says "roomd project trust ${project.name}".`,
    )
  return [...lines, ...notes]
}

function poolLine({ name, slots, depth, warming, reason, retry_in_ms }: PoolProject): string {
  const rooms = slots.map(
    ({ state, standby }) => `${state} with ${standby === 'missing' ? 'no' : `a ${standby}`} kernel`,
  )
  const what = rooms.length > 0 ? rooms.join(', ') : warming ? 'one is being made' : 'none'
  const again = retry_in_ms === undefined ? '' : `, tried again in ${Math.ceil(retry_in_ms / 1000)} s`
  return `${name}: ${what} (of ${depth})${reason === undefined ? '' : `; ${reason}${again}`}`
}

/** A path as the daemon can understand it; names, ids and addresses as they are. */
function placeOf(project: string, cwd: string): string {
  const isPath = /^(?:~|\.{1,2}(?:[/\\]|$)|[/\\]|file:)/.test(project)
  return isPath ? pathOf(project, cwd) : project
}
