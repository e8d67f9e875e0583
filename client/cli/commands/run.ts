/**
 * `roomd run NOTEBOOK`: opens the room, runs all cells, saves, and ends the kernel that it started. A kernel that ran before, or a
 * room that others are in, is left as it was. What was computed before an error is saved too: the error is among the outputs.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Client } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import type { CommandContext, CommandRun } from '../command.ts'
import { CtrlC, Left } from '../ctrl-c.ts'
import { watchOver } from '../daemon/watch-over.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { type NotebookOutcome, runNotebook } from '../notebook-run.ts'
import { withDaemon } from '../session.ts'
import { LiveScreen } from '../show/live-screen.ts'
import { counted, duration, shortPath } from '../show/readable.ts'

interface RunArguments {
  readonly notebook: string
  readonly kernel: string | undefined
  readonly timeoutMs: number | undefined
  readonly save: boolean
  readonly keep: boolean
}

export const run: CommandRun<RunArguments> = async (context, args) => {
  const path = resolve(context.cwd, args.notebook)
  if (!existsSync(path)) {
    throw new CommandFailure(ExitCode.failed, 'not_found', `there is no file ${path}.`, 'ls *.ipynb')
  }
  return withDaemon(context, async (client) => {
    const room = await client.openRoom({ path })
    const present = room.state.kernel
    const running = present !== null && present.state !== 'none' && present.state !== 'dead'
    const ours = !running && room.state.peersTotal <= 1
    try {
      // The daemon saves by itself what ran, too.
      if (!args.save) await room.call('set_autosave', { autosave: 'paused' })
      if (args.kernel !== undefined && present?.name !== args.kernel) await room.restartKernel(args.kernel)
      const { outcome, timedOut } = await runAndWatch(context, client, room, args.timeoutMs)
      return await conclude(context, client, room, args, ours, outcome, timedOut)
    } catch (thrown) {
      // Nothing that we started stays behind; if the daemon is away it ends an idle kernel by itself.
      if (ours && !args.keep && client.connected) {
        await client.call('close_room', { notebook_id: room.id }, { timeoutMs: 5000 })
      }
      if (thrown instanceof Left) {
        context.terminal.note('roomd: left')
        return ExitCode.left
      }
      throw thrown
    }
  })
}

/** The run, ended by an error of ours as soon as it is known that it cannot be followed. */
async function runAndWatch(
  { terminal }: CommandContext,
  client: Client,
  room: Room,
  timeoutMs: number | undefined,
): Promise<{ outcome: NotebookOutcome; timedOut: boolean }> {
  let timedOut = false
  let fail: (error: unknown) => void = () => {}
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject
  })
  const interrupt = async () => {
    const { offer } = await room.interrupt()
    if (offer !== undefined) {
      fail(
        new CommandFailure(
          ExitCode.failed,
          'kernel_busy',
          'the kernel was interrupted but its cell goes on (it may catch interrupts, or be in native code).',
          `roomd restart-kernel ${room.id.slice(0, 8)}`,
        ),
      )
    }
  }
  const screen = new LiveScreen(terminal)
  const ctrlC = new CtrlC(() => {
    screen.note('roomd: interrupting the kernel; Ctrl-C again leaves')
    interrupt().catch(fail)
  })
  const stopWatching = watchOver(client, screen, fail)
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true
          interrupt().catch(fail)
        }, timeoutMs)
  try {
    const work = runNotebook({ terminal, client, room, ctrlC, screen })
    // When the race is lost its end concerns nobody.
    work.catch(() => {})
    return { outcome: await ctrlC.orLeave(Promise.race([work, failed])), timedOut }
  } finally {
    clearTimeout(timer)
    stopWatching()
    ctrlC.dispose()
  }
}

async function conclude(
  { terminal }: CommandContext,
  client: Client,
  room: Room,
  args: RunArguments,
  ours: boolean,
  { executions, failed }: NotebookOutcome,
  timedOut: boolean,
): Promise<ExitCode> {
  // Where no cell began, the file's own outputs are worth more than their absence.
  const nothingRan = executions.length > 0 && executions.every(({ started_at }) => started_at === null)
  const saved = args.save && !nothingRan ? await room.save() : null
  const ends = ours && !args.keep
  if (ends) await client.call('close_room', { notebook_id: room.id })
  const elapsed = elapsedMs(executions)
  const status = timedOut ? 'timeout' : (failed?.execution.status ?? 'done')
  if (terminal.json) {
    terminal.result({
      notebook_id: room.id,
      path: room.state.source.path,
      status,
      executions,
      saved,
      kernel: ends ? 'ended' : 'kept',
      elapsed_ms: elapsed,
    })
  } else {
    if (failed !== null) {
      const why = timedOut
        ? `was interrupted: the run took longer than ${(args.timeoutMs ?? 0) / 1000} s`
        : `ended as ${failed.execution.status}${failed.execution.reason ? `: ${failed.execution.reason}` : ''}`
      terminal.note(`${terminal.paintNote('red', 'roomd:')} ${failed.cell} ${why}`)
    }
    const parts = [
      `${cellsText(executions)} in ${duration(elapsed)}`,
      saved === null
        ? 'not saved'
        : `${saved.outcome === 'saved' ? 'saved' : 'unchanged'} ${shortPath(saved.path)}`,
      ends ? 'kernel ended' : `kernel kept: room ${room.id.slice(0, 8)}`,
    ]
    terminal.note(terminal.paintNote('dim', parts.join(' · ')))
  }
  return failed === null && !timedOut ? ExitCode.done : ExitCode.failed
}

function cellsText(executions: NotebookOutcome['executions']): string {
  const done = executions.filter(({ status }) => status === 'done').length
  const all = counted(executions.length, 'cell')
  return done === executions.length ? all : `${done} of ${all} done`
}

/** From the first start to the last end, by the daemon's clock. */
function elapsedMs(executions: NotebookOutcome['executions']): number {
  const starts = executions.flatMap(({ started_at }) => (started_at === null ? [] : [started_at]))
  const ends = executions.flatMap(({ finished_at }) => (finished_at === null ? [] : [finished_at]))
  return starts.length === 0 || ends.length === 0 ? 0 : Math.max(...ends) - Math.min(...starts)
}
