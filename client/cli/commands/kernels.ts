/** `roomd kernels`: what can be started, and from where; what runs; what waits to be used. */
import type { KernelSpecSummary, MethodResult } from '../../../protocol/methods.ts'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'
import { ago, counted, mebibytes, shortPath } from '../show/readable.ts'
import { printTable } from '../show/table.ts'

type KernelList = MethodResult<'list_kernels'>

export const run: CommandRun<Record<string, never>> = async (context) => {
  const { terminal } = context
  const list = await withDaemon(context, (client) => client.call('list_kernels', {}))
  if (terminal.json) {
    terminal.result(list)
    return ExitCode.done
  }
  printTable<KernelSpecSummary>(terminal, list.specs, [
    { title: 'NAME', value: (spec) => spec.name, style: () => 'bold' },
    { title: 'LANGUAGE', value: (spec) => spec.language },
    {
      title: 'STARTS',
      value: (spec) => (spec.usable ? 'yes' : 'no'),
      style: (spec) => (spec.usable ? 'green' : 'red'),
    },
    { title: 'FROM', value: (spec) => spec.source },
    { title: 'SPEC', value: (spec) => spec.reason ?? shortPath(spec.path), flexible: 'end' },
  ])
  terminal.line()
  showRunning(context.terminal, list.running)
  if (list.standbys.length > 0) terminal.line(counted(list.standbys.length, 'standby kernel'))
  return ExitCode.done
}

function showRunning(terminal: Parameters<typeof printTable>[0], running: KernelList['running']): void {
  if (running.length === 0) {
    terminal.line('no kernel is running')
    return
  }
  const now = Date.now()
  printTable(terminal, running, [
    { title: 'PID', value: (kernel) => String(kernel.pid ?? '-'), align: 'right' },
    { title: 'NAME', value: (kernel) => kernel.name },
    {
      title: 'STATE',
      value: ({ state, reason }) => (reason === undefined ? state : `${state}, ${reason}`),
      flexible: 'end',
    },
    { title: 'STARTED', value: (kernel) => (kernel.started_at === null ? '-' : ago(kernel.started_at, now)) },
    { title: 'MEMORY', value: (kernel) => mebibytes(kernel.memory), align: 'right' },
    { title: 'ROOM', value: (kernel) => kernel.notebook_id?.slice(0, 8) ?? '-', style: () => 'cyan' },
  ])
}
