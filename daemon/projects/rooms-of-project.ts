/**
 * How a room of a project comes to have its workspace, and how its kernel is started: the same way for one that waits in the pool and
 * for one that somebody has asked for. Setup, kernel, preload, in this order; each start asks anew what has to be done.
 */
import { mkdir } from 'node:fs/promises'
import { messageOf, RoomdError } from '../../protocol/errors.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { KernelStart } from '../rooms/hooks.ts'
import type { Room } from '../rooms/room.ts'
import type { RoomRecord } from '../rooms/room-record.ts'
import type { ProjectsContext } from './context.ts'
import { dataPlaces, linkData } from './data-links.ts'
import { differences, type Fingerprint, fingerprintOf, isLockFile } from './fingerprint.ts'
import { indexEntries } from './git/index-entries.ts'
import {
  changedPaths,
  cloneWorkspace,
  listedPaths,
  moveWorkspace,
  ownFolder,
  type WorkspaceRequest,
} from './git/workspace.ts'
import { interpreterOf } from './interpreter.ts'
import { userFiles } from './kept-files.ts'
import { preload } from './preload.ts'
import { markPrepared } from './prepared.ts'
import type { Project } from './project.ts'
import { clearStamp, runSetup } from './setup.ts'
import { standbyOf, type TierRoom } from './tier.ts'
import { readWorkspace, updateContent, type Workspace } from './workspace-rows.ts'

/** Which kernelspec a project's rooms have. */
export async function projectSpec(context: ProjectsContext, project: Project): Promise<KernelSpecSummary> {
  const { settings, record } = project
  if (settings.kernel !== null) return context.kernels.choose({ name: settings.kernel })
  if (record.trusted && interpreterOf(record.source, settings) !== null)
    return context.kernels.choose({ language: 'python' })
  return context.kernels.choose({})
}

/** Starts the kernel of a room that somebody is in; also in place of one that is dead and of which nobody has told yet. */
export function startFor(context: ProjectsContext, tier: TierRoom): void {
  const { room, project, workspace } = tier
  if (project === null ? !workspace.trusted : !project.record.trusted) return
  if (room.presentKernel && tier.standby !== 'missing') return
  const start = async (): Promise<void> => {
    if (room.presentKernel) await endKernel(room, 'it had died')
    await room.slot.want()
  }
  start().catch((error: unknown) => {
    context.log.info({ room: room.id, reason: messageOf(error) }, 'the kernel of a draft did not start')
  })
}

/** Clones the workspace and puts the data in it. Leaves no folder behind when it fails. */
export async function fillWorkspace(
  context: ProjectsContext,
  tier: TierRoom,
  commit: string,
  signal?: AbortSignal,
): Promise<void> {
  const project = mustHaveProject(tier)
  const { workspace } = tier
  const { steps } = context
  const request = workspaceRequest(context, project, workspace, commit, signal)
  const notes = await steps.wait('clone', () => project.inCache(() => cloneWorkspace(request), signal))
  notes.push(...(await steps.wait('data', () => linkProjectData(project, workspace))))
  await markPrepared(workspace.folder)
  workspace.base = commit
  workspace.detail = { ...workspace.detail, notes }
}

/**
 * Brings an untouched workspace to a commit, and says what changed of that which its kernel was started from. Nothing is done where
 * the commit is the same and so are the settings.
 */
export async function refreshWorkspace(
  context: ProjectsContext,
  tier: TierRoom,
  commit: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const project = mustHaveProject(tier)
  const { workspace } = tier
  const { fingerprint } = workspace.detail
  const settings =
    fingerprint === null ? Promise.resolve([]) : changedSettings(context, project, tier.room, fingerprint)
  settings.catch(() => {}) // told below, or outdone by what ends the move
  const moved = workspace.base === commit ? [] : await move(context, project, tier, commit, signal)
  return [...moved, ...(await settings)]
}

/** Brings it there, and says which files a kernel was started from have changed. While that goes on its base is null. */
async function move(
  context: ProjectsContext,
  project: Project,
  tier: TierRoom,
  commit: string,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const { steps, git } = context
  const { workspace } = tier
  const { base } = workspace
  const { files } = workspace.detail
  workspace.base = null
  const request = workspaceRequest(context, project, workspace, commit, signal)
  const advance = base === null ? null : project.cache.advanceFrom(base, commit)
  const notes = await steps.wait('move', () => project.inCache(() => moveWorkspace(request, advance), signal))
  const paths = await steps.wait('compare', async () => {
    if (base === null) return null
    return advance?.paths ?? (await changedPaths(git, workspace.folder, base, commit, signal))
  })
  const [more] = await Promise.all([linkProjectData(project, workspace), clearStamp(workspace.folder)])
  notes.push(...more)
  const theirs = tier.given ? await putThere(context, workspace.folder, 'ignored too', signal) : []
  await markPrepared(workspace.folder, theirs)
  workspace.base = commit
  workspace.detail = { ...workspace.detail, notes }
  if (paths === null) return ['the commit']
  const loaded = files === null ? null : new Set(files)
  return paths.filter((path) => isLockFile(path) || loaded === null || loaded.has(path))
}

/**
 * What somebody has put into a workspace that he was given, as far as that can be told. Folders that git ignores, which setup fills, are
 * nobody's own; a file that is ignored by itself (`.env`) may be.
 */
async function putThere(
  context: ProjectsContext,
  folder: string,
  which: 'ignored too' | 'not in ignored folders',
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const newer = await userFiles(folder)
  if (newer.length === 0) return []
  if (which === 'not in ignored folders') {
    const [changed, alone] = await Promise.all([
      listedPaths(context.git, folder, 'changed', signal),
      listedPaths(context.git, folder, 'ignored alone', signal),
    ])
    const repositories = [...changed].filter((path) => path.endsWith('/'))
    return newer.filter(
      (path) =>
        changed.has(path) || alone.has(path) || repositories.some((folder) => path.startsWith(folder)),
    )
  }
  const tracked = await listedPaths(context.git, folder, 'tracked', signal)
  return newer.filter((path) => !tracked.has(path))
}

/** What else a kernel was started from and is not as it was. */
async function changedSettings(
  context: ProjectsContext,
  project: Project,
  room: Room,
  fingerprint: Fingerprint,
): Promise<string[]> {
  try {
    const now = await presentFingerprint(context, project, room, kernelName(room), new Map())
    return differences(withoutFiles(fingerprint), now)
  } catch (error) {
    if (!(error instanceof RoomdError)) throw error
    // Kernelspec or interpreter are gone: what was started from them goes too, and the next start says why.
    return [error.message]
  }
}

/** What a claim is told about things that are not as they should be. */
export async function presentNotes(tier: TierRoom): Promise<string[]> {
  const project = mustHaveProject(tier)
  const { notes } = await dataPlaces(project.record.source, project.settings.data)
  return [...new Set([...tier.workspace.detail.notes, ...notes])]
}

/** Throws `forbidden`: nothing of an untrusted project runs, not even a kernel in its folder. */
export function mustBeTrusted(project: Project | null, workspace: Workspace): void {
  if (project ? project.record.trusted : workspace.trusted) return
  const name = project?.record.name ?? 'of this room'
  throw new RoomdError(
    'forbidden',
    project
      ? `the project ${name} is not trusted: nothing of it runs, not even a kernel. Look at it, then: roomd project trust ${project.record.id.slice(0, 8)}`
      : 'the project of this room was removed and had not been trusted; add it again and trust it to run something here',
    { cause: { project: project?.record.id ?? null } },
  )
}

/** Before a kernel starts in the room: setup, and what the kernel gets. */
export async function startInWorkspace(
  context: ProjectsContext,
  project: Project | null,
  room: Room,
  workspace: Workspace,
  kernel: string,
  signal: AbortSignal,
): Promise<KernelStart> {
  mustBeTrusted(project, workspace)
  const standby = isWaiting(room.record)
  if (project === null) return { standby }
  const { settings, record } = project
  const interpreter = ownKernel(project, room) ? interpreterOf(record.source, settings) : null
  const own = { ...settings.env, ...aboutProject(project, workspace) }
  const files = await context.steps.wait('fingerprint', () => lockFiles(context, workspace, signal))
  const fingerprint = await presentFingerprint(context, project, room, kernel, files)
  const environment = { ...(await context.kernels.environment()), ...own }
  const done = await context.steps.wait('setup', () =>
    runSetup({
      deputies: context.deputies,
      workspace: workspace.folder,
      commit: workspace.base ?? '',
      fingerprint,
      commands: settings.setup,
      environment,
      signal,
    }),
  )
  if (done === 'ran' && standby) await markPrepared(workspace.folder)
  // Somebody has it, and may have put something into it while it was set up.
  else if (done === 'ran' && room.record.state === 'draft')
    await markPrepared(
      workspace.folder,
      await putThere(context, workspace.folder, 'not in ignored folders', signal),
    )
  // It may have been taken back meanwhile.
  mustBeTrusted(project, workspace)
  workspace.detail = { ...workspace.detail, fingerprint }
  return { env: own, standby, ...(interpreter === null ? {} : { interpreter }) }
}

/** In the fresh kernel, before anything else: preload, and what it has loaded. */
export async function preloadInto(
  context: ProjectsContext,
  project: Project | null,
  room: Room,
  workspace: Workspace,
  kernel: Kernel,
  signal: AbortSignal,
): Promise<void> {
  if (project === null || !ownKernel(project, room)) return
  mustBeTrusted(project, workspace)
  const { files, notes } = await context.steps.wait('preload', () =>
    preload(kernel, project.settings.preload, signal),
  )
  for (const note of notes) context.log.warn({ room: room.id, project: project.record.name }, note)
  const kept = workspace.detail.notes.filter((note) => !note.startsWith('preload '))
  workspace.detail = {
    ...workspace.detail,
    files: files === null ? null : [...files],
    notes: [...kept, ...notes],
  }
  await context.store.write([updateContent(workspace)])
}

/** A room of a project that is in work: its workspace as the store has it. */
export function storedWorkspace(context: ProjectsContext, room: Room): Workspace | null {
  return readWorkspace(context.store, room.id)
}

export function isWaiting(record: RoomRecord): boolean {
  return record.state === 'warming' || record.state === 'pooled'
}

/** Ends the kernel of a room if it has or gets one. */
export async function endKernel(room: Room, reason: string): Promise<void> {
  if (standbyOf(room) === 'missing' && !room.presentKernel) return
  await room.slot.end('shutdown', reason, 500)
}

/** Whether the room has the project's own kernel: another kernel gets neither its interpreter nor its preload. */
function ownKernel(project: Project, room: Room): boolean {
  const { settings } = project
  const name = room.record.kernel_name
  return settings.kernel === null ? name === null || !otherKernel(room) : name === settings.kernel
}

/** A kernel that somebody chose for this room. */
export function otherKernel(room: Room): boolean {
  const spec = room.document.metadata.kernelspec as { name?: unknown } | undefined
  return room.record.kernel_name !== spec?.name
}

function kernelName(room: Room): string {
  const spec = room.document.metadata.kernelspec as { name?: unknown } | undefined
  return room.record.kernel_name ?? String(spec?.name ?? '')
}

async function presentFingerprint(
  context: ProjectsContext,
  project: Project,
  room: Room,
  kernel: string,
  files: ReadonlyMap<string, string>,
): Promise<Fingerprint> {
  const { settings, record } = project
  const interpreter = ownKernel(project, room) ? interpreterOf(record.source, settings) : null
  // Each looks through the folders of kernelspecs.
  const [{ language }, program] = await Promise.all([
    context.kernels.choose({ name: kernel }),
    interpreter ?? context.kernels.program(kernel),
  ])
  return fingerprintOf({
    settings,
    interpreter: program,
    kernel,
    language,
    files,
  })
}

function withoutFiles(fingerprint: Fingerprint): Fingerprint {
  return Object.fromEntries(Object.entries(fingerprint).filter(([name]) => !name.startsWith('file ')))
}

async function lockFiles(
  context: ProjectsContext,
  workspace: Workspace,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const entries = await indexEntries(context.git, {
    cwd: workspace.folder,
    what: 'the workspace could not be looked at',
    signal,
  })
  return new Map(entries.filter(({ path }) => isLockFile(path)).map(({ path, object }) => [path, object]))
}

async function linkProjectData(project: Project, workspace: Workspace): Promise<string[]> {
  const { places, notes } = await dataPlaces(project.record.source, project.settings.data)
  await mkdir(ownFolder(workspace.folder), { recursive: true, mode: 0o700 })
  return [...notes, ...(await linkData(workspace.folder, places))]
}

/** Where the project itself is, for setup commands and code that need it. */
function aboutProject(project: Project, workspace: Workspace): Record<string, string> {
  const { source } = project.record
  return {
    ROOMD_WORKSPACE: workspace.folder,
    ...(source.kind === 'local' ? { ROOMD_PROJECT_DIR: source.folder } : {}),
  }
}

function workspaceRequest(
  context: ProjectsContext,
  project: Project,
  workspace: Workspace,
  commit: string,
  signal: AbortSignal | undefined,
): WorkspaceRequest {
  return {
    git: context.git,
    cache: project.cache,
    source: project.record.source,
    folder: workspace.folder,
    branch: workspace.branch ?? '',
    commit,
    trusted: project.record.trusted,
    signal,
  }
}

function mustHaveProject(tier: TierRoom): Project {
  if (tier.project === null) throw new RoomdError('internal', `room ${tier.id} belongs to no project`)
  return tier.project
}
