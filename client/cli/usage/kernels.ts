/** Kernelspecs of this machine. */
import { Argument, type Command, Option } from 'commander'
import { type Act, command, type JsonOption, json } from './options.ts'

interface WhereOptions extends JsonOption {
  prefix?: string
  sysPrefix?: boolean
}

export function kernelsCommand(program: Command, act: Act): void {
  const kernels = command(program, 'kernels', 'kernelspecs found, running kernels, standbys').action(
    (options: JsonOption) =>
      act(json(options), async (c) => (await import('../commands/kernels.ts')).run(c, {})),
  )
  const place = (name: string, description: string): Command =>
    kernels
      .command(name)
      .description(description)
      .addArgument(new Argument('<kernel>', 'the kernel that comes with roomd').choices(['javascript']))
      .addOption(new Option('--user', 'for this user (the default)').conflicts(['prefix', 'sysPrefix']))
      .addOption(new Option('--prefix <folder>', 'below FOLDER/share/jupyter').conflicts('sysPrefix'))
      .option('--sys-prefix', 'in the Python environment that is active')
      .option('--json', 'one JSON value on stdout')
  const where = (options: WhereOptions) =>
    options.sysPrefix
      ? { kind: 'sys-prefix' as const }
      : options.prefix === undefined
        ? { kind: 'user' as const }
        : { kind: 'prefix' as const, path: options.prefix }
  // `--json` before the subcommand's name belongs to the command above.
  const asJson = (options: JsonOption): boolean => json(options) || json(kernels.opts())

  place('install', 'make it usable from Jupyter')
    .option('--print', 'show what would be written, write nothing')
    .action((_kernel: string, options: WhereOptions & { print?: boolean }) =>
      act(asJson(options), async (c) =>
        (await import('../commands/kernels-install.ts')).install(c, {
          where: where(options),
          print: options.print === true,
        }),
      ),
    )
  place('uninstall', 'take it away from Jupyter; roomd keeps it').action(
    (_kernel: string, options: WhereOptions) =>
      act(asJson(options), async (c) =>
        (await import('../commands/kernels-install.ts')).uninstall(c, { where: where(options) }),
      ),
  )
}
