/** `roomd kernels install javascript` and `… uninstall javascript`: the kernel of roomd, for Jupyter. */
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { installKernelspec, uninstallKernelspec } from '../kernelspec/install.ts'
import { kernelspecFolder, type Where } from '../kernelspec/places.ts'
import { shortPath } from '../show/readable.ts'

export const install: CommandRun<{ where: Where; print: boolean }> = async (context, { where, print }) => {
  const { terminal, env, cwd } = context
  const installed = installKernelspec(kernelspecFolder(where, env, cwd), { print })
  if (terminal.json) terminal.result(installed)
  else if (print) {
    terminal.note(`${installed.path} would be:`)
    terminal.write(installed.content)
  } else if (!installed.changed) terminal.line(`${shortPath(installed.path)} is there already`)
  else
    terminal.line(
      `Jupyter finds the kernel as "${installed.name}" now (${shortPath(installed.path)}). Install it again when Node or roomd moves.`,
    )
  return ExitCode.done
}

export const uninstall: CommandRun<{ where: Where }> = async (context, { where }) => {
  const { terminal, env, cwd } = context
  const removed = uninstallKernelspec(kernelspecFolder(where, env, cwd))
  if (terminal.json) terminal.result(removed)
  else terminal.line(`removed ${shortPath(removed.path)}; roomd itself goes on having the kernel`)
  return ExitCode.done
}
