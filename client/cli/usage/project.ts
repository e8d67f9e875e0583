/** Projects and their warm rooms. */
import type { Command } from 'commander'
import { type Act, collect, command, type JsonOption, json, wholeNumber } from './options.ts'

interface ProjectAddOptions {
  name?: string
  kernel?: string
  interpreter?: string
  setup?: string[]
  preload?: string[]
  data?: string[]
  env?: string[]
  depth?: number
  trust?: boolean
}

interface ProjectClaimOptions {
  kernel?: string
  includeUncommitted?: boolean
  skipWarm?: boolean
  forceFetch?: boolean
}

export function projectCommands(program: Command, act: Act): void {
  const project = program.command('project').description('repositories whose rooms are made ahead of need')
  command(project, 'add', 'add a git repository; or change how its rooms are made')
    .argument('<source>', 'a working copy, or the address of a remote repository')
    .option('--name <name>', 'what to call it (default: the name of its folder)')
    .option('--kernel <kernel>', 'kernelspec, or path of an interpreter')
    .option('--interpreter <path>', 'interpreter, relative to the repository or absolute')
    .option('--setup <command>', 'shell command that prepares a workspace (may be repeated)', collect)
    .option('--preload <code>', 'code that each kernel runs when it has started (may be repeated)', collect)
    .option('--data <path>', 'data that is not in git, linked into workspaces (may be repeated)', collect)
    .option('--env <name=value>', 'variable of its kernels and setup (may be repeated)', collect)
    .option('--depth <count>', 'warm rooms kept ready, 0 to 3', wholeNumber)
    .option('--trust', 'let its code run: setup, preload, kernels')
    .action((source: string, options: JsonOption & ProjectAddOptions) =>
      act(json(options), async (c) =>
        (await import('../commands/project.ts')).run(c, {
          ...options,
          action: 'add',
          source,
          trust: options.trust === true,
        }),
      ),
    )
  command(project, 'list', 'projects').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('../commands/project.ts')).run(c, { action: 'list' })),
  )
  command(project, 'show', 'a project, its rooms and how to fetch their results')
    .argument('<project>', 'path, id or name')
    .action((name: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('../commands/project.ts')).run(c, { action: 'show', project: name }),
      ),
    )
  command(project, 'trust', 'let the code of a project run')
    .argument('<project>', 'path, id or name')
    .option('--revoke', 'not any more')
    .action((name: string, options: JsonOption & { revoke?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/project.ts')).run(c, {
          action: 'trust',
          project: name,
          trusted: options.revoke !== true,
        }),
      ),
    )
  command(project, 'remove', 'forget a project; rooms with work in them stay')
    .argument('<project>', 'path, id or name')
    .action((name: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('../commands/project.ts')).run(c, { action: 'remove', project: name }),
      ),
    )
  command(project, 'claim', 'get a room of a project, with a workspace of its own')
    .argument('<project>', 'path, id or name')
    .option('--kernel <name>', "another kernelspec than the project's")
    .option('--include-uncommitted', 'start from the working copy as it is')
    .option('--skip-warm', 'always a fresh room')
    .option('--force-fetch', 'fetch even if it was done a moment ago')
    .action((name: string, options: JsonOption & ProjectClaimOptions) =>
      act(json(options), async (c) =>
        (await import('../commands/project.ts')).run(c, {
          action: 'claim',
          project: name,
          kernel: options.kernel,
          includeUncommitted: options.includeUncommitted === true,
          skipWarm: options.skipWarm === true,
          forceFetch: options.forceFetch === true,
        }),
      ),
    )

  command(project, 'archive', 'give back the workspace of a room; its notebook can still be read')
    .argument('<room>', 'id, unique prefix of one, or path')
    .option('--force', 'also while somebody is in it')
    .action((room: string, options: JsonOption & { force?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/project.ts')).run(c, {
          action: 'archive',
          room,
          force: options.force === true,
        }),
      ),
    )

  command(program, 'pool', 'warm rooms that wait to be claimed').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('../commands/pool.ts')).run(c, {})),
  )
}
