/** Methods of channel 0 that concern projects and the pool, one handler each; and how a project is found by what people call it. */
import { existsSync } from 'node:fs'
import { RoomdError } from '../../protocol/errors.ts'
import type { MethodArguments, MethodResult } from '../../protocol/methods.ts'
import type { Claim } from '../../protocol/projects.ts'
import { shellWord } from '../../protocol/shell-word.ts'
import type { ConnectionHandler } from '../rooms/connection-requests.ts'
import type { Mutation } from '../rooms/mutations.ts'
import type { RoomRegistry } from '../rooms/registry.ts'
import type { RequestContext } from '../rooms/seam.ts'
import { archiveRoom, bundleOf } from './archive.ts'
import { interpreterOf } from './interpreter.ts'
import type { Project } from './project.ts'
import type { Projects } from './projects.ts'
import { mergeSettings, type OwnSettings } from './settings.ts'
import { canonicalUrl, findSource, looksRemote } from './source.ts'
import { workspacesOf } from './workspace-rows.ts'

type ProjectMethod =
  | 'add_project'
  | 'list_projects'
  | 'get_project'
  | 'trust_project'
  | 'remove_project'
  | 'claim_room'
  | 'archive_room'
  | 'pool_status'

type Handlers = { readonly [M in ProjectMethod]: ConnectionHandler<M> }

/** Registers the handlers with the registry, which all requests of connections come to. */
export function serveProjects(projects: Projects, rooms: RoomRegistry): void {
  for (const [method, handler] of Object.entries(handlersOf(projects))) {
    rooms.serve(method as ProjectMethod, handler)
  }
}

function handlersOf(projects: Projects): Handlers {
  return {
    add_project: (rooms, args, context) =>
      once(rooms, 'add_project', context, () => addProject(projects, args, context.signal)),

    list_projects: async () => ({ projects: projects.list.all().map((project) => project.summary()) }),

    get_project: async (_rooms, { project: name }) => describe(projects, await findProject(projects, name)),

    trust_project: (rooms, { project: name, trusted }, context) =>
      once(rooms, 'trust_project', context, async () => {
        const project = await findProject(projects, name)
        await projects.list.trust(project, trusted)
        return { project: project.summary() }
      }),

    remove_project: (rooms, { project: name }, context) =>
      once(rooms, 'remove_project', context, async () => {
        const project = await findProject(projects, name)
        const summary = project.summary()
        return { project: summary, rooms: await projects.list.remove(project) }
      }),

    archive_room: (rooms, { notebook_id, force }, context) =>
      once(rooms, 'archive_room', context, async () => {
        const kept = await archiveRoom(projects.context, projects.tier, notebook_id, force)
        return { notebook_id, ...(kept === null ? {} : { kept }) }
      }),

    claim_room: (rooms, args, context) => claimRoom(projects, rooms, args, context),

    pool_status: async () => ({
      projects: projects.list.pools().map(({ pool }) => pool.status()),
      memory: { used: projects.memory.used, budget: projects.memory.budget },
    }),
  }
}

/** By id, unique prefix of an id, name, path or address. Throws `not_found`, `invalid_argument`. */
export async function findProject(projects: Projects, name: string): Promise<Project> {
  const all = projects.list.all()
  const exact = all.find(({ record }) => record.id === name || record.name === name)
  if (exact) return exact
  if (looksRemote(name)) {
    const remote = projects.list.byKey(canonicalUrl(name))
    if (remote) return remote
  } else if (name.startsWith('/')) {
    const { key } = await findSource(projects.context.git, name)
    const local = projects.list.byKey(key)
    if (local) return local
  }
  const begun = /^[0-9a-f-]{4,}$/i.test(name)
    ? all.filter(({ record }) => record.id.startsWith(name.toLowerCase()))
    : []
  if (begun.length > 1)
    throw new RoomdError('invalid_argument', `"${name}" begins more than one project's id; give more of it`)
  if (begun[0]) return begun[0]
  const place = name.startsWith('/') || looksRemote(name)
  throw new RoomdError(
    'not_found',
    place
      ? `${name} is not a project yet: roomd project add ${name}`
      : `there is no project "${name}"; a project is named by id, name or path`,
    { next: { tool: 'list_projects', arguments: {} } },
  )
}

async function addProject(
  projects: Projects,
  args: MethodArguments<'add_project'>,
  signal: AbortSignal,
): Promise<MethodResult<'add_project'>> {
  const { source, name, trust, ...rest } = args
  const own = Object.fromEntries(
    Object.entries(rest).filter(([, value]) => value !== undefined),
  ) as OwnSettings
  const named = await findSource(projects.context.git, source)
  const known = projects.list.byKey(named.key)
  // What cannot work is refused before anything is changed.
  if (own.kernel !== undefined) await projects.context.kernels.choose({ name: own.kernel })
  if (own.interpreter !== undefined)
    interpreterOf(named.source, mergeSettings({ ...known?.record.own, ...own }, null))
  if (
    name !== undefined &&
    projects.list.all().some(({ record }) => record.name === name && record.key !== named.key)
  )
    throw new RoomdError('conflict', `another project is called "${name}"; choose another name`)
  if (known) {
    if (Object.keys(own).length > 0) await projects.list.change(known, { ...known.record.own, ...own })
    if (trust) await projects.list.trust(known, true)
    await projects.list.clone(known, signal)
    return { project: known.summary(), added: false, notes: notesOf(known) }
  }
  const project = await projects.list.add(named, own, {
    trusted: trust,
    ...(name === undefined ? {} : { name }),
  })
  try {
    await projects.list.clone(project, signal)
  } catch (error) {
    // Called off: as if it had never been asked for.
    await projects.list.remove(project)
    throw error
  }
  return { project: project.summary(), added: true, notes: notesOf(project) }
}

function notesOf(project: Project): string[] {
  const { manifest, record } = project
  const notes: string[] = []
  if (manifest.problem !== null) notes.push(manifest.problem)
  else if (manifest.found && !record.trusted)
    notes.push('its roomd.json is not heeded before the project is trusted')
  return notes
}

async function describe(projects: Projects, project: Project): Promise<MethodResult<'get_project'>> {
  const { context } = projects
  const { settings, manifest, record } = project
  const rows = workspacesOf(context.store, record.id)
  const rooms = rows.flatMap((workspace) => {
    const room = context.store.get<{ title: string; state: string }>(
      'SELECT title, state FROM rooms WHERE notebook_id = ?',
      workspace.notebookId,
    )
    if (!room || ['warming', 'pooled', 'discarded'].includes(room.state)) return []
    const { branch, folder } = workspace
    const bundle = bundleOf(context.places.kept(workspace.notebookId))
    const from = room.state !== 'archived' ? folder : existsSync(bundle) ? bundle : null
    const fetch =
      record.source.kind === 'local' && branch !== null && from !== null
        ? `git -C ${shellWord(record.source.folder)} fetch ${shellWord(from)} ${branch}:${branch}`
        : null
    return [
      {
        notebook_id: workspace.notebookId,
        title: room.title,
        state: room.state,
        workspace: folder,
        branch,
        fetch,
      },
    ]
  })
  return {
    project: project.summary(),
    settings: {
      kernel: settings.kernel,
      interpreter: settings.interpreter,
      setup: [...settings.setup],
      preload: [...settings.preload],
      data: settings.data.map(({ path }) => path),
      env: Object.keys(settings.env),
      depth: settings.depth,
    },
    manifest: { found: manifest.found, ...(manifest.problem === null ? {} : { problem: manifest.problem }) },
    rooms,
    kept: projects.tier.keptOf(record.id).filter(({ path }) => existsSync(path)),
  }
}

/** Once for each mutation id; a repetition after a daemon's death does it again, since what a dead daemon began it did not keep. */
async function once<T>(
  rooms: RoomRegistry,
  method: ProjectMethod,
  context: RequestContext,
  work: () => Promise<T>,
): Promise<T> {
  if (context.mutationId === undefined) return work()
  const key = {
    clientInstance: context.identity.clientInstance,
    id: context.mutationId,
    watermark: context.watermark,
  }
  const value = await rooms.mutations.run(key, method, null, async (mutation) => {
    const done = await work()
    await rooms.mutations.finish(mutation, { value: done })
    return done
  })
  return value as T
}

async function claimRoom(
  projects: Projects,
  rooms: RoomRegistry,
  { project: name, ...request }: MethodArguments<'claim_room'>,
  context: RequestContext,
): Promise<Claim> {
  const { clientInstance } = context.identity
  const claim = async (): Promise<Claim> =>
    projects.claims.claim(await findProject(projects, name), clientInstance, request, context.signal)
  if (context.mutationId === undefined) return claim()
  const key = { clientInstance, id: context.mutationId, watermark: context.watermark }
  const run = async (mutation: Mutation): Promise<Claim> => {
    let got: Claim
    try {
      got = await claim()
    } catch (error) {
      throw context.signal.aborted ? new CalledOff(error) : error
    }
    // Under the room's id: a draft that is retired takes the answer with it, and the claim can be sent again.
    const ofRoom: Mutation = { ...mutation, notebookId: got.notebook_id }
    await rooms.mutations.finish(ofRoom, { value: got })
    return got
  }
  for (;;) {
    try {
      return (await rooms.mutations.run(key, 'claim_room', null, run)) as Claim
    } catch (error) {
      if (!(error instanceof CalledOff)) throw error
      // Sent again on a new connection while the first was being called off with the old one: done anew, for this one.
      if (context.signal.aborted) throw error.reason
    }
  }
}

/** A claim that ended with its asker's connection, or with its CANCEL. */
class CalledOff extends Error {
  readonly reason: unknown
  constructor(reason: unknown) {
    super('the claim was called off')
    this.reason = reason
  }
}
