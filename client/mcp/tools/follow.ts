/**
 * Waiting for executions on behalf of a call: until they have ended, ask for input, the call's time is over, or its caller cancels
 * it. New output is told as it comes. What is waited for goes on in any case, unless the caller cancels a call that started it.
 */
import { RoomdError } from '../../../protocol/errors.ts'
import { type Execution, isTerminal } from '../../../protocol/notebook.ts'
import type { Room } from '../../sdk/room.ts'
import type { Run } from '../../sdk/run.ts'
import { unlessAborted } from '../../sdk/unless-aborted.ts'
import type { Lease } from '../sessions/guests.ts'
import type { Work } from './room.ts'
import type { ToolContext } from './tool.ts'

export interface FollowOptions {
  readonly timeoutSecs: number
  /** What a cancelled call does to what it started. */
  readonly cancel: 'interrupt' | 'detach'
}

type Turn = 'ended' | 'input' | 'timeout'

/** The execution as it is when the wait ends. Rejects with `client_aborted` when the caller cancelled. */
export async function follow(
  context: ToolContext,
  lease: Work,
  run: Run,
  options: FollowOptions,
): Promise<Execution> {
  const [execution] = await followAll(context, lease, [run], options)
  return execution as Execution
}

/** As `follow`, for several that run one after the other; the time is that of all together. */
export async function followAll(
  context: ToolContext,
  lease: Work,
  runs: readonly Run[],
  options: FollowOptions,
): Promise<Execution[]> {
  const deadline = new Deadline(context, options.timeoutSecs)
  const stopProgress = tellProgress(context, runs)
  const stopShowing = showRuns(lease, runs)
  try {
    for (const run of runs) {
      if ((await followOne(context, lease, run, deadline)) !== 'ended') break
    }
  } catch (error) {
    if (context.signal.aborted && options.cancel === 'interrupt') await endRuns(context, lease.room, runs)
    throw error
  } finally {
    deadline.dispose()
    stopProgress()
    stopShowing()
  }
  return Promise.all(runs.map((run) => present(lease, run)))
}

async function followOne(context: ToolContext, lease: Lease, run: Run, deadline: Deadline): Promise<Turn> {
  let mayAsk = context.ask !== null
  for (;;) {
    const turn = await nextTurn(context, lease.room, run, deadline)
    if (turn !== 'input' || !mayAsk || run.execution.password) return turn
    mayAsk = await askForInput(context, lease.room, run, deadline)
    if (!mayAsk) return 'input'
  }
}

/** Resolves at once when the time is over already. */
function nextTurn(context: ToolContext, room: Room, run: Run, deadline: Deadline): Promise<Turn> {
  let stop = (): void => {}
  const turn = new Promise<Turn>((resolve, reject) => {
    const look = (): void => {
      const { status } = run.execution
      if (isTerminal(status)) resolve('ended')
      else if (status === 'waiting_for_input') resolve('input')
      else if (deadline.over) resolve('timeout')
    }
    const stopChange = room.state.on('change', look)
    const stopDeadline = deadline.whenOver(look)
    stop = () => {
      stopChange()
      stopDeadline()
    }
    // The room being lost says nothing about the execution: the daemon is asked for it afterwards.
    run.done.then(
      () => resolve('ended'),
      (error: unknown) =>
        error instanceof RoomdError && error.code !== 'client_aborted' ? resolve('ended') : reject(error),
    )
    look()
  })
  return unlessAborted(turn, context.signal, 'waiting for the execution').finally(() => stop())
}

/** Asks the user for what the code asks for. false: nobody answered here; the caller of the tool has to. */
async function askForInput(context: ToolContext, room: Room, run: Run, deadline: Deadline): Promise<boolean> {
  const { ask } = context
  if (!ask) return false
  const withdraw = new AbortController()
  const leave = (): void => withdraw.abort()
  const look = (): void => {
    if (run.execution.status !== 'waiting_for_input') leave()
  }
  const stops = [deadline.whenOver(leave), room.state.on('change', look)]
  context.signal.addEventListener('abort', leave, { once: true })
  try {
    if (deadline.over) return false
    const value = await ask(run.execution.prompt ?? '', withdraw.signal)
    // Somebody else was faster, or the code was interrupted.
    if (run.execution.status !== 'waiting_for_input') return true
    if (value === null) return false
    return await answer(context, room, run, value)
  } finally {
    context.signal.removeEventListener('abort', leave)
    for (const stop of stops) stop()
  }
}

/**
 * Sends the answer. In a call that is carried out again, ids of answers that an earlier process gave are answered from memory and
 * nothing happens: then the next id is tried.
 */
async function answer(context: ToolContext, room: Room, run: Run, value: string): Promise<boolean> {
  let happened = false
  const stop = room.on('input_answered', (event) => {
    if (event.execution_id === run.id) happened = true
  })
  try {
    while (!happened && run.execution.status === 'waiting_for_input') {
      if (context.mutations.left === 0) return false
      const mutationId = context.mutations.next()
      await room.sendInput(run.id, value, { mutationId }).catch((error: unknown) => {
        // Another peer's answer came first.
        if (!(error instanceof RoomdError && error.code === 'conflict')) throw error
        happened = true
      })
      if (mutationId === undefined) break
    }
    return true
  } finally {
    stop()
  }
}

/** What this call started and has not ended: the running one is interrupted, queued ones are cancelled first. */
async function endRuns(context: ToolContext, room: Room, runs: readonly Run[]): Promise<void> {
  const [first, ...behind] = runs.filter((run) => !run.alreadyActive && !isTerminal(run.execution.status))
  if (!first) return
  const cancel = (run: Run, spare: { id: number | undefined } | undefined): Promise<unknown> | null =>
    spare ? room.call('cancel_execution', { execution_id: run.id }, { mutationId: spare.id }) : null
  // The first has its id in any case: interrupted, it cancels what is behind it in its batch.
  const last = context.mutations.spare()
  const calls = [
    ...behind.reverse().map((run) => cancel(run, context.mutations.spare())),
    cancel(first, last),
  ]
  // Nobody is told any more; what could not be ended is seen by whoever looks at the room.
  await Promise.allSettled(calls)
}

/** Shows the other peers which cell the call waits for. */
function showRuns(work: Work, runs: readonly Run[]): () => void {
  let shown = ''
  const look = (): void => {
    const run = runs.find(({ execution }) => !isTerminal(execution.status))
    if (!run) return
    const { cell_id, status } = run.execution
    const activity = `${words[status] ?? status} ${cell_id === null ? 'code' : 'cell #'}`
    if (shown === `${activity} ${run.id}`) return
    shown = `${activity} ${run.id}`
    work.show({ activity, cellId: cell_id ?? undefined })
  }
  look()
  return work.room.state.on('change', look)
}

const words: Partial<Record<Execution['status'], string>> = {
  queued: 'waiting to run',
  waiting_for_input: 'waiting for input in',
}

async function present(lease: Lease, run: Run): Promise<Execution> {
  const { room, client } = lease
  if (isTerminal(run.execution.status) || room.state.attachment === 'attached') return run.execution
  return (await client.call('get_execution', { execution_id: run.id })).execution
}

/** Tells new text of stdout and stderr as it comes, for as long as the call lasts. */
function tellProgress(context: ToolContext, runs: readonly Run[]): () => void {
  const { progress } = context
  if (!progress) return () => {}
  const stop = new AbortController()
  const tell = async (): Promise<void> => {
    for (const run of runs) {
      for await (const output of run.outputs({ signal: stop.signal })) {
        if (stop.signal.aborted) return
        if (output.output_type === 'stream' && typeof output.text === 'string') progress(output.text)
      }
    }
  }
  tell().catch(() => {
    // Stopped, or the room was lost: the call itself tells that.
  })
  return () => stop.abort()
}

/** The time of one call. */
class Deadline {
  over: boolean
  readonly #listeners = new Set<() => void>()
  readonly #stop: () => void

  constructor({ clock }: ToolContext, seconds: number) {
    this.over = seconds <= 0
    this.#stop = this.over
      ? () => {}
      : clock.after(seconds * 1000, () => {
          this.over = true
          for (const listener of [...this.#listeners]) listener()
        })
  }

  whenOver(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  dispose(): void {
    this.#stop()
  }
}
