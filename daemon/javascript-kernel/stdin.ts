/**
 * The globals `input()` and `prompt()`: ask the client that runs the cell and wait for its answer, as Python's input() does. The main
 * thread sleeps meanwhile; an interrupt wakes it, since all user code runs in a guard.
 */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { Outlet } from './outlet.ts'
import { type SharedMemory, word } from './ring.ts'
import { currentScope } from './scope.ts'
import type { StdinAnswer } from './threads.ts'

export class StdinNotImplementedError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'StdinNotImplementedError'
  }
}

export function createStdin(memory: SharedMemory, port: MessagePort, outlet: Outlet) {
  const ask = (prompt: string, password: boolean): string => {
    const scope = currentScope.getStore()
    if (!scope?.running) {
      throw new StdinNotImplementedError(
        'input() was called after its cell had ended: no client is there to answer.',
      )
    }
    if (!scope.allowStdin) {
      throw new StdinNotImplementedError(
        'input() was called, but this client does not support input requests.',
      )
    }
    // An answer that came after its question was interrupted is for nobody.
    while (receiveMessageOnPort(port));
    outlet.inputRequest(scope.ref, prompt, password)
    for (;;) {
      const count = Atomics.load(memory.words, word.stdin)
      const answer = receiveMessageOnPort(port) as { message: StdinAnswer } | undefined
      if (answer) return answer.message.value
      Atomics.wait(memory.words, word.stdin, count)
    }
  }

  /** Asks for one line. `password`: the client does not show what is typed. Throws StdinNotImplementedError. */
  function input(prompt: unknown = '', options: { password?: boolean } = {}): string {
    return ask(String(prompt), options.password === true)
  }

  /** As in browsers: an empty answer gives the default. */
  function browserPrompt(
    message: unknown = '',
    defaultValue: unknown = '',
    options: { password?: boolean } = {},
  ): string {
    const answer = ask(String(message), options.password === true)
    return answer === '' ? String(defaultValue ?? '') : answer
  }
  Object.defineProperty(browserPrompt, 'name', { value: 'prompt' })

  return { input, prompt: browserPrompt }
}
