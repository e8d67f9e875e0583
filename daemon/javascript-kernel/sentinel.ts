/**
 * The sentinel thread: receives SIGINT for the process whenever the main thread is not inside a guard, for a script that
 * `breakOnSigint` watches is the only thing that hears a signal while the main thread computes.
 *
 * Node gives a signal to the script that began to watch last. So a guard that began after this thread fell asleep is reached
 * directly; one that began before is signalled again while this thread is awake.
 */
import vm from 'node:vm'
import { InnerSignal, signalHeard } from './inner-signal.ts'
import { openSharedMemory, word } from './ring.ts'
import type { SentinelStart, ToMain } from './threads.ts'

/** How long the main thread may take before the state of its guard is looked at. */
const recheckMs = 5

/** Never returns. */
export function keepSentinel({ memory, requests }: SentinelStart): void {
  const { words } = openSharedMemory(memory)
  Reflect.set(globalThis, '__sleep__', () => {
    Atomics.store(words, word.sentinel, 1)
    Atomics.notify(words, word.sentinel)
    // Nothing ever changes this word: only a signal ends the sleep.
    for (;;) Atomics.wait(words, word.nothing, 0)
  })
  const sleep = new vm.Script('globalThis.__sleep__()', { filename: 'kernel-sentinel' })
  const signal = new InnerSignal(words)
  for (;;) {
    try {
      sleep.runInThisContext({ breakOnSigint: true, displayErrors: false })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error
    }
    // Our own, for a guard that has ended meanwhile, is no new interrupt.
    if (!signalHeard(words)) interruptMain(words, requests, signal)
  }
}

/** Returns when the main thread has taken the interrupt, as a message or as the end of its guard. */
function interruptMain(words: Int32Array, requests: SentinelStart['requests'], signal: InnerSignal): void {
  Atomics.store(words, word.interrupt, 1)
  const message: ToMain = { type: 'interrupt' }
  requests.postMessage(message)
  while (Atomics.wait(words, word.interrupt, 1, recheckMs) === 'timed-out') signal.send()
}
