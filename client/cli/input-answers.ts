/**
 * Answers `input()` of the runs we follow from our terminal. Somebody else in the room may answer first; then our prompt goes away.
 * End of input (Ctrl-D) interrupts the kernel: there is no answer to give.
 */
import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { RoomdError } from '../../protocol/errors.ts'
import type { Room } from '../sdk/room.ts'
import type { LiveScreen } from './show/live-screen.ts'

export interface InputAnswers {
  /** Whether there is a terminal to ask at; the kernel's `input()` raises where there is not. */
  readonly possible: boolean
  dispose(): void
}

/** `follows` tells which executions are ours. `ctrlC` is called for a Ctrl-C at the prompt. */
export function answerInputs(
  room: Room,
  screen: LiveScreen,
  follows: (executionId: string) => boolean,
  ctrlC: () => void,
): InputAnswers {
  if (process.stdin.isTTY !== true || !screen.interactive) return { possible: false, dispose: () => {} }
  let asking: { executionId: string; abort: AbortController } | null = null
  const stops = [
    room.on('input_requested', ({ execution_id, prompt, password }) => {
      asking?.abort.abort()
      const abort = new AbortController()
      asking = { executionId: execution_id, abort }
      // By then the output before the question is printed, and the answer that says whose run this is has been read.
      setImmediate(() => {
        if (!abort.signal.aborted && follows(execution_id))
          void answer(execution_id, prompt, password, abort.signal)
      })
    }),
    room.on('input_answered', ({ execution_id }) => stopAsking(execution_id)),
    room.on('execution_finished', ({ execution }) => stopAsking(execution.execution_id)),
  ]

  function stopAsking(executionId: string): void {
    if (asking?.executionId !== executionId) return
    asking.abort.abort()
    asking = null
  }

  async function answer(id: string, prompt: string, password: boolean, signal: AbortSignal): Promise<void> {
    screen.progress(null)
    const lines = createInterface({
      input: process.stdin,
      output: password ? silent(prompt) : process.stdout,
      terminal: true,
    })
    lines.on('SIGINT', ctrlC)
    lines.on('close', () => {
      if (signal.aborted) return
      room.interrupt().catch(() => {
        // The run ends, or its failure is told where it is waited for.
      })
    })
    signal.addEventListener('abort', () => lines.close(), { once: true })
    try {
      const value = await lines.question(prompt, { signal })
      if (password) process.stdout.write('\n')
      asking?.abort.abort()
      await room.sendInput(id, value)
    } catch (error) {
      // Answered by somebody else, or the run is over: the question is no longer open.
      const settled = signal.aborted || (error instanceof RoomdError && error.code === 'conflict')
      if (!settled) screen.write(`\n${error instanceof Error ? error.message : String(error)}\n`)
    }
  }

  return {
    possible: true,
    dispose() {
      asking?.abort.abort()
      for (const stop of stops) stop()
    },
  }
}

/** Shows the prompt and nothing of what is typed. */
function silent(prompt: string): Writable {
  process.stdout.write(prompt)
  return new Writable({ write: (_piece, _encoding, done) => done() })
}
