/** The daemon itself: its life, its settings, its log. */
import type { Command } from 'commander'
import { type Act, command, type JsonOption, json, wholeNumber } from './options.ts'

export function daemonCommands(program: Command, act: Act): void {
  command(program, 'start', 'start the background daemon; returns when it answers').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/start.ts')).run(c, {})),
  )

  command(program, 'stop', 'stop the daemon; it stays stopped until "roomd start". Kernels go on')
    .option('--kernels', 'also end all kernels')
    .action((options: JsonOption & { kernels?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/stop.ts')).run(c, { kernels: options.kernels === true }),
      ),
    )

  command(program, 'restart', 'stop the daemon and start it again; kernels and running cells go on').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/restart.ts')).run(c, {})),
  )

  command(program, 'status', 'what the daemon is doing; exit 69 when none runs').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/status.ts')).run(c, {})),
  )

  command(program, 'logs', "the daemon's log")
    .option('-f, --follow', 'go on with new lines, through rotation')
    .option('-n, --lines <count>', 'how many of the last lines', wholeNumber, 40)
    .action((options: JsonOption & { follow?: boolean; lines: number }) =>
      act(json(options), async (c) =>
        (await import('../commands/logs.ts')).run(c, {
          follow: options.follow === true,
          lines: options.lines,
        }),
      ),
    )

  command(program, 'daemon', 'run the daemon in the foreground (what a service runs)').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/daemon.ts')).run(c, {})),
  )

  const config = program.command('config').description("the home's settings")
  command(config, 'get', 'settings with their defaults')
    .argument('[key]', 'one of them, such as http.port')
    .action((key: string | undefined, options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/config.ts')).run(c, { action: 'get', key })),
    )
  command(config, 'set', 'change a setting; refused if the whole would not be valid')
    .argument('<key>', 'such as http.port')
    .argument('<value>', 'JSON, or text')
    .action((key: string, value: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('../commands/config.ts')).run(c, { action: 'set', key, value }),
      ),
    )
  command(config, 'unset', 'take a setting back to its default')
    .argument('<key>', 'such as http.port')
    .action((key: string, options: JsonOption) =>
      act(json(options), async (c) =>
        (await import('../commands/config.ts')).run(c, { action: 'unset', key }),
      ),
    )
  command(config, 'path', 'the file that holds them').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('../commands/config.ts')).run(c, { action: 'path' })),
  )

  command(program, 'open', 'open the console in a browser')
    .argument('[room]', 'id, unique prefix of an id, or path')
    .option('--print', 'print the address instead; it is good for one visit within two minutes')
    .action((room: string | undefined, options: JsonOption & { print?: boolean }) =>
      act(json(options), async (c) =>
        (await import('../commands/open.ts')).run(c, { room, print: options.print === true }),
      ),
    )

  command(program, 'version', 'the version of this program').action((options: JsonOption) =>
    act(json(options), async (c) => (await import('../commands/version.ts')).run(c, {})),
  )
}
