/**
 * Runs all code cells of a room and shows them in order: outputs as they come, and a progress line that says which cell runs and
 * since when. Knows nothing of saving and closing; see commands/run.ts.
 */
import type { Execution } from '../../protocol/notebook.ts'
import type { Client } from '../sdk/client.ts'
import type { Room } from '../sdk/room.ts'
import type { Run } from '../sdk/run.ts'
import type { CtrlC } from './ctrl-c.ts'
import { answerInputs } from './input-answers.ts'
import { ExecutionPrinter } from './show/execution-printer.ts'
import type { LiveScreen } from './show/live-screen.ts'
import { duration } from './show/readable.ts'
import { cutTo } from './show/width.ts'
import type { Terminal } from './terminal.ts'

const TICK = 200

export interface NotebookOutcome {
  readonly executions: Execution[]
  /** The first that did not end as `done`, with the place of its cell. */
  readonly failed: { readonly execution: Execution; readonly cell: string } | null
}

interface Options {
  readonly terminal: Terminal
  readonly client: Client
  readonly room: Room
  readonly ctrlC: CtrlC
  readonly screen: LiveScreen
}

export async function runNotebook({
  terminal,
  client,
  room,
  ctrlC,
  screen,
}: Options): Promise<NotebookOutcome> {
  const ids = new Set<string>()
  const inputs = answerInputs(room, screen, (id) => ids.has(id), ctrlC.press)
  try {
    const runs = await room.runAll({ allowStdin: inputs.possible })
    for (const run of runs) ids.add(run.id)
    const executions: Execution[] = []
    let failed: NotebookOutcome['failed'] = null
    for (const [i, run] of runs.entries()) {
      const title = `[${i + 1}/${runs.length}]`
      const line = firstLine(sourceOf(room, run))
      const progress = showProgress(screen, run, `${title}`, line)
      try {
        if (!terminal.json)
          await print(
            run,
            screen,
            terminal,
            client,
            cutTo(`${title} ${line}`, Math.min(100, terminal.columns)),
          )
        const { execution } = await run.done
        executions.push(execution)
        if (execution.status !== 'done' && failed === null) {
          failed = { execution, cell: `cell ${i + 1} of ${runs.length} (${cutTo(line, 60)})` }
        }
      } finally {
        progress()
      }
    }
    return { executions, failed }
  } finally {
    inputs.dispose()
    screen.progress(null)
  }
}

async function print(
  run: Run,
  screen: LiveScreen,
  terminal: Terminal,
  client: Client,
  heading: string,
): Promise<void> {
  const printer = new ExecutionPrinter(screen, terminal, (blob) => client.fetchBlob(blob))
  let headed = !terminal.interactive
  for await (const output of run.outputs()) {
    if (!headed) screen.write(`${terminal.paint('dim', heading)}\n`)
    headed = true
    await printer.print(output)
  }
  printer.finish()
}

/** Draws the line now and then; the returned function ends that. */
function showProgress(screen: LiveScreen, run: Run, title: string, line: string): () => void {
  const draw = () => {
    const { status, started_at } = run.execution
    const since = started_at === null ? '' : ` ${duration(Date.now() - started_at)}`
    const state = status === 'queued' ? ' waiting for the kernel' : ''
    // At the prompt the line would be in the way.
    screen.progress(status === 'waiting_for_input' ? null : `${title}${since}${state}  ${line}`)
  }
  draw()
  const timer = setInterval(draw, TICK)
  return () => {
    clearInterval(timer)
    screen.progress(null)
  }
}

function sourceOf(room: Room, run: Run): string {
  const { cell_id } = run.execution
  return cell_id === null ? '' : (room.state.cell(cell_id)?.source ?? '')
}

function firstLine(source: string): string {
  const line = source.split('\n').find((candidate) => candidate.trim() !== '')
  return (line ?? '(empty)').trim()
}
