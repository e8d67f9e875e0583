/** `roomd project add|list|show|trust|remove|claim|archive`: repositories whose rooms are made ahead of need. */
import { existsSync } from 'node:fs'
import { resolve, sep } from 'node:path'
import type { MethodResult } from '../../../protocol/methods.ts'
import type { Claim, ProjectSummary } from '../../../protocol/projects.ts'
import { shellWord } from '../../../protocol/shell-word.ts'
import type { CommandContext, CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { findRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'
import { counted, shortPath } from '../show/readable.ts'
import { printTable } from '../show/table.ts'

export type ProjectAction =
  | {
      readonly action: 'add'
      readonly source: string
      readonly name?: string | undefined
      readonly kernel?: string | undefined
      readonly interpreter?: string | undefined
      readonly setup?: readonly string[] | undefined
      readonly preload?: readonly string[] | undefined
      readonly data?: readonly string[] | undefined
      readonly env?: readonly string[] | undefined
      readonly depth?: number | undefined
      readonly trust: boolean
    }
  | { readonly action: 'list' }
  | { readonly action: 'show'; readonly project: string }
  | { readonly action: 'trust'; readonly project: string; readonly trusted: boolean }
  | { readonly action: 'remove'; readonly project: string }
  | { readonly action: 'archive'; readonly room: string; readonly force: boolean }
  | {
      readonly action: 'claim'
      readonly project: string
      readonly kernel?: string | undefined
      readonly includeUncommitted: boolean
      readonly skipWarm: boolean
      readonly forceFetch: boolean
    }

export const run: CommandRun<ProjectAction> = (context, args) => {
  switch (args.action) {
    case 'add':
      return add(context, args)
    case 'list':
      return list(context)
    case 'show':
      return show(context, args.project)
    case 'trust':
      return trust(context, args)
    case 'remove':
      return remove(context, args.project)
    case 'archive':
      return archive(context, args)
    case 'claim':
      return claim(context, args)
  }
}

async function add(
  context: CommandContext,
  args: Extract<ProjectAction, { action: 'add' }>,
): Promise<ExitCode> {
  const { terminal, cwd } = context
  const { source, name, setup, preload, data, depth, trust: trusted } = args
  // A name without a slash is a kernelspec, anything else a program.
  const kernel = args.kernel !== undefined && !isPath(args.kernel) ? args.kernel : undefined
  const interpreter =
    args.interpreter ?? (args.kernel !== undefined && isPath(args.kernel) ? args.kernel : undefined)
  if (depth !== undefined && (depth < 0 || depth > 3))
    throw new CommandFailure(
      ExitCode.usage,
      'usage',
      `--depth ${depth} is out of range: a project keeps 0 to 3 rooms warm.`,
      'roomd project add --help',
    )
  const { project, added, notes } = await withDaemon(context, (client) =>
    client.call('add_project', {
      // Here a word is never the name of a project.
      source: isAddress(source) ? source : resolve(cwd, source),
      ...(name === undefined ? {} : { name }),
      ...(kernel === undefined ? {} : { kernel }),
      ...(interpreter === undefined ? {} : { interpreter }),
      ...(setup === undefined ? {} : { setup: [...setup] }),
      ...(preload === undefined ? {} : { preload: [...preload] }),
      ...(data === undefined ? {} : { data: [...data] }),
      ...(args.env === undefined ? {} : { env: variables(args.env) }),
      ...(depth === undefined ? {} : { depth }),
      trust: trusted,
    }),
  )
  if (terminal.json) terminal.result({ project: projectAsJson(project) })
  else {
    terminal.line(`${project.name}  ${project.id}${added ? '' : '  (was a project already)'}`)
    const word = shellWord(project.name)
    if (project.status === 'ready') terminal.line(`ready; claim a room with: roomd project claim ${word}`)
    for (const note of notes) terminal.note(note)
    if (!project.trusted && project.status === 'ready')
      terminal.note(`nothing of it runs before you trust it: roomd project trust ${word}`)
    if (project.status === 'error') {
      terminal.note(`not usable yet: ${project.reason ?? 'its clone failed'}`)
      terminal.note(
        `it stays in the list and is tried again every few minutes; roomd project remove ${word} forgets it`,
      )
    }
  }
  return project.status === 'error' ? ExitCode.failed : ExitCode.done
}

async function list(context: CommandContext): Promise<ExitCode> {
  const { terminal } = context
  const { projects } = await withDaemon(context, (client) => client.call('list_projects', {}))
  if (terminal.json) terminal.result({ projects: projects.map(projectAsJson) })
  else if (projects.length === 0) terminal.line('no projects; "roomd project add PATH" adds one')
  else {
    printTable<ProjectSummary>(terminal, projects, [
      { title: 'NAME', value: (project) => project.name, style: () => 'bold' },
      { title: 'ID', value: (project) => project.id.slice(0, 8), style: () => 'cyan' },
      {
        title: 'STATUS',
        value: (project) => project.status,
        style: ({ status }) => (status === 'error' ? 'red' : status === 'ready' ? 'green' : 'yellow'),
      },
      { title: 'TRUSTED', value: (project) => (project.trusted ? 'yes' : 'no') },
      { title: 'PLACE', value: (project) => shortPath(project.path), flexible: 'start' },
    ])
    for (const { name, reason } of projects)
      if (reason !== undefined) terminal.note(`${name}: ${reason.split('\n')[0]}`)
  }
  return ExitCode.done
}

async function show(context: CommandContext, name: string): Promise<ExitCode> {
  const { terminal, cwd } = context
  const found = await withDaemon(context, (client) =>
    client.call('get_project', { project: placeOf(name, cwd) }),
  )
  if (terminal.json) {
    terminal.result({ ...found, project: projectAsJson(found.project) })
    return ExitCode.done
  }
  showProject(context, found)
  return ExitCode.done
}

function showProject({ terminal }: CommandContext, found: MethodResult<'get_project'>): void {
  const { project, settings, manifest, rooms, kept } = found
  terminal.line(`${project.name}  ${project.id}`)
  terminal.line(`place     ${project.path}`)
  terminal.line(`status    ${project.status}${project.reason === undefined ? '' : `: ${project.reason}`}`)
  terminal.line(`trusted   ${project.trusted ? 'yes' : 'no'}`)
  terminal.line(`kernel    ${settings.interpreter ?? settings.kernel ?? 'the default'}`)
  terminal.line(`depth     ${settings.depth}`)
  for (const command of settings.setup) terminal.line(`setup     ${command}`)
  for (const code of settings.preload) terminal.line(`preload   ${code.split('\n')[0]}`)
  for (const path of settings.data) terminal.line(`data      ${path}`)
  if (settings.env.length > 0) terminal.line(`env       ${settings.env.join(' ')}`)
  if (manifest.problem !== undefined) terminal.note(manifest.problem)
  else if (manifest.found && !project.trusted)
    terminal.note('its roomd.json is not heeded before the project is trusted')
  for (const room of rooms) {
    terminal.line()
    terminal.line(`${room.notebook_id}  ${room.state}  ${room.title}`)
    const archived = room.state === 'archived'
    if (!archived) terminal.line(`  ${room.workspace}`)
    if (room.fetch !== null) terminal.line(`  results: ${room.fetch}`)
    else if (room.branch !== null && !archived) terminal.line(`  branch ${room.branch}`)
  }
  for (const { notebook_id, path } of kept) {
    terminal.line()
    terminal.line(`kept files of room ${notebook_id.slice(0, 8)}, whose workspace is gone: ${path}`)
  }
}

async function trust(
  context: CommandContext,
  args: Extract<ProjectAction, { action: 'trust' }>,
): Promise<ExitCode> {
  const { terminal, cwd } = context
  const { project } = await withDaemon(context, (client) =>
    client.call('trust_project', { project: placeOf(args.project, cwd), trusted: args.trusted }),
  )
  if (terminal.json) terminal.result({ project: projectAsJson(project) })
  else
    terminal.line(
      project.trusted
        ? `${project.name} is trusted: its setup, preload and kernels run`
        : `${project.name} is not trusted any more: nothing of it is started; kernels that run go on`,
    )
  return ExitCode.done
}

async function remove(context: CommandContext, name: string): Promise<ExitCode> {
  const { terminal, cwd } = context
  const { project, rooms } = await withDaemon(context, (client) =>
    client.call('remove_project', { project: placeOf(name, cwd) }),
  )
  if (terminal.json) terminal.result({ project: projectAsJson(project), rooms })
  else {
    const stay = rooms === 0 ? '' : `; ${counted(rooms, 'room')} with work and their workspaces stay`
    terminal.line(`removed ${project.name}${stay}`)
  }
  return ExitCode.done
}

async function archive(
  context: CommandContext,
  args: Extract<ProjectAction, { action: 'archive' }>,
): Promise<ExitCode> {
  const { terminal } = context
  const archived = await withDaemon(context, async (client) => {
    const { notebook_id } = await findRoom(context, client, args.room)
    return client.call('archive_room', { notebook_id, force: args.force })
  })
  if (terminal.json) terminal.result(archived)
  else {
    terminal.line(`archived ${archived.notebook_id}: its workspace is given back, its notebook can be read`)
    if (archived.kept !== undefined)
      terminal.line(`files and commits made there are kept in ${archived.kept}`)
  }
  return ExitCode.done
}

async function claim(
  context: CommandContext,
  args: Extract<ProjectAction, { action: 'claim' }>,
): Promise<ExitCode> {
  const { terminal, cwd } = context
  const { kernel, includeUncommitted, skipWarm, forceFetch } = args
  const claimed = await withDaemon(context, (client) =>
    client.call('claim_room', {
      project: placeOf(args.project, cwd),
      interactive: true,
      skip_warm: skipWarm,
      force_fetch: forceFetch,
      settings: {
        ...(kernel === undefined ? {} : { kernel }),
        ...(includeUncommitted ? { include_uncommitted: true } : {}),
      },
    }),
  )
  if (terminal.json) terminal.result({ ...claimed, project: projectAsJson(claimed.project) })
  else showClaim(context, claimed)
  return ExitCode.done
}

function showClaim({ terminal }: CommandContext, claimed: Claim): void {
  const { notebook_id, workspace, branch, claim: how, standby, stale, uncommitted, notes } = claimed
  terminal.line(notebook_id)
  terminal.line(`workspace  ${workspace}`)
  terminal.line(`branch     ${branch}`)
  terminal.line(`room       ${how}, kernel ${standby === 'missing' ? 'not started' : standby}`)
  if (stale !== undefined) terminal.note(`it may be old: ${stale}`)
  if (uncommitted > 0)
    terminal.note(
      `${counted(uncommitted, 'uncommitted file')} ${uncommitted === 1 ? 'is' : 'are'} not in this workspace (--include-uncommitted takes them along)`,
    )
  for (const note of notes) terminal.note(note)
}

export function projectAsJson({ id, name, path, trusted, status, reason }: ProjectSummary): object {
  return { id, name, path, trusted, status, ...(reason === undefined ? {} : { reason }) }
}

/** A path becomes absolute, since the daemon does not know our folder; names, ids and addresses stay. */
function placeOf(text: string, cwd: string): string {
  if (isAddress(text)) return text
  return isPath(text) || text === '.' || text === '..' || existsSync(resolve(cwd, text))
    ? resolve(cwd, text)
    : text
}

function isAddress(text: string): boolean {
  return /^[\w+.-]+:\/\//.test(text) || /^[\w.-]+@[\w.-]+:/.test(text)
}

function isPath(text: string): boolean {
  return text.includes('/') || text.includes(sep)
}

function variables(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const equals = pair.indexOf('=')
      if (equals > 0) return [pair.slice(0, equals), pair.slice(equals + 1)]
      throw new CommandFailure(
        ExitCode.usage,
        'usage',
        `"${pair}" is no variable; --env takes NAME=VALUE.`,
        'roomd project add --help',
      )
    }),
  )
}
