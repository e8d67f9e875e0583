/** `roomd pool`: what waits to be claimed, what is being made, and why something is not. */
import type { PoolProject } from '../../../protocol/projects.ts'
import type { CommandRun } from '../command.ts'
import { ExitCode } from '../exit-codes.ts'
import { withDaemon } from '../session.ts'
import { mebibytes } from '../show/readable.ts'
import { printTable } from '../show/table.ts'

export const run: CommandRun<Record<string, never>> = async (context) => {
  const { terminal } = context
  const { status, standbys } = await withDaemon(context, async (client) => ({
    status: await client.call('pool_status', {}),
    standbys: (await client.call('list_kernels', {})).standbys,
  }))
  if (terminal.json) {
    terminal.result(status)
    return ExitCode.done
  }
  const { projects, memory } = status
  if (projects.length === 0) terminal.line('no projects; "roomd project add PATH" adds one')
  else {
    printTable<PoolProject>(terminal, projects, [
      { title: 'PROJECT', value: ({ name }) => name, style: () => 'bold' },
      { title: 'STATUS', value: ({ status: state, trusted }) => (trusted ? state : `${state}, not trusted`) },
      {
        title: 'READY',
        value: ({ slots, depth }) => `${slots.filter(isReady).length}/${depth}`,
        align: 'right',
      },
      { title: 'ROOMS', value: roomsText, flexible: 'end' },
    ])
    for (const { name, reason, retry_in_ms } of projects) {
      if (reason === undefined) continue
      const again = retry_in_ms === undefined ? '' : ` (again in ${Math.ceil(retry_in_ms / 1000)} s)`
      terminal.note(`${name}: ${reason.split('\n')[0]}${again}`)
    }
  }
  const forNotebooks = standbys.filter(({ project, state }) => project === undefined && state === 'ready')
  if (forNotebooks.length > 0)
    terminal.line(`ready for new notebooks: ${forNotebooks.map(({ name }) => name).join(', ')}`)
  const used = memory.used === null ? 'not measured yet' : mebibytes(memory.used)
  terminal.line(`memory of kernels: ${used}, budget ${mebibytes(memory.budget)}`)
  return ExitCode.done
}

function isReady({ state, standby }: PoolProject['slots'][number]): boolean {
  return state === 'pooled' && standby === 'ready'
}

function roomsText({ slots, warming }: PoolProject): string {
  const rooms = slots.map(({ state, notebook_id, standby }) => {
    const kernel = standby === 'missing' ? 'no kernel' : `kernel ${standby}`
    return `${notebook_id.slice(0, 8)} ${state}, ${kernel}`
  })
  if (warming && rooms.length === 0) rooms.push('warming')
  return rooms.length === 0 ? '-' : rooms.join('; ')
}
