/** Notebooks: their rooms and kernels. */
import type { Command } from 'commander'
import { type Act, command, type JsonOption, json, seconds } from './options.ts'

export function notebookCommands(program: Command, act: Act): void {
  command(program, 'run', 'run all cells of a notebook, show their outputs, save it')
    .argument('<notebook>', 'path of an .ipynb file')
    .option('--kernel <name>', 'kernelspec to run it with; see "roomd kernels"')
    .option('--timeout <seconds>', 'interrupt and fail after this long', seconds)
    .option('--no-save', 'leave the file as it is')
    .option('--keep', 'keep room and kernel for later')
    .action(
      (
        notebook: string,
        options: JsonOption & { kernel?: string; timeout?: number; save: boolean; keep?: boolean },
      ) =>
        act(json(options), async (c) =>
          (await import('../commands/run.ts')).run(c, {
            notebook,
            kernel: options.kernel,
            timeoutMs: options.timeout,
            save: options.save,
            keep: options.keep === true,
          }),
        ),
    )

  command(program, 'ps', 'rooms: who is in them, their kernels and queues')
    .option('-a, --all', 'also rooms that are only in the store')
    .action((options: JsonOption & { all?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/ps.ts')).run(c, { all: options.all === true }),
      ),
    )

  command(program, 'exec', "run code in a room's kernel and print what comes of it")
    .argument('<room>', 'id, unique prefix of an id, or path')
    .argument('<code>', 'source text; "-" reads it from stdin')
    .action((room: string, code: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/exec.ts')).run(c, { room, code })),
    )

  command(program, 'interrupt', 'interrupt the running cell and cancel what is queued')
    .argument('<room>', 'id, unique prefix of an id, or path')
    .action((room: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/interrupt.ts')).run(c, { room })),
    )

  command(program, 'restart-kernel', "end a room's kernel and start a new one; variables are lost")
    .argument('<room>', 'id, unique prefix of an id, or path')
    .option('--kernel <name>', 'kernelspec of the new kernel')
    .option('--reset', 'although kernels of this room ran out of memory again and again')
    .action((room: string, options: JsonOption & { kernel?: string; reset?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/restart-kernel.ts')).run(c, {
          room,
          kernel: options.kernel,
          reset: options.reset === true,
        }),
      ),
    )

  command(program, 'keep', 'how long an idle kernel is kept when nobody is in the room')
    .argument('<room>', 'id, unique prefix of an id, or path')
    .argument('<time>', 'such as 90s, 45m, 12h or 7d; "pinned": for ever; "default": 30 minutes')
    .action((room: string, time: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/keep.ts')).run(c, { room, time })),
    )

  command(program, 'close', "end a room's kernel and detach everybody; the record stays")
    .argument('<room>', 'id, unique prefix of an id, or path')
    .action((room: string, options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/close.ts')).run(c, { room })),
    )
}
