/**
 * The sentinel thread: receives SIGINT for the process whenever the main thread is not inside a guard, for `breakOnSigint` is the
 * only way to hear a signal while the main thread computes. It also keeps Node's signal watchdog running, which makes guards
 * cheap and leaves no moment in which a signal would end the process.
 *
 * Node gives a signal to the script that began to watch last. Two nested scripts wait here, so that one is always watching: the
 * inner one hears the signal, the outer one those that come while it is dealt with. A main thread that is in a guard which is older
 * than the inner script is signalled again while the inner one is away.
 */
import vm from 'node:vm'
import { openSharedMemory, word } from './ring.ts'
import type { SentinelStart, ToMain } from './threads.ts'

/** How long the main thread may take before the state of its guard is looked at again. */
const recheckMs = 10
const watch = new vm.Script('globalThis.__work__()', { filename: 'kernel-sentinel' })

/** Never returns. */
export function keepSentinel({ memory, requests }: SentinelStart): void {
  const { words } = openSharedMemory(memory)

  const sleep = (): void => {
    Atomics.store(words, word.sentinel, 1)
    Atomics.notify(words, word.sentinel)
    // Nothing ever changes this word.
    for (;;) Atomics.wait(words, word.nothing, 0)
  }

  const interruptMain = (): void => {
    Atomics.store(words, word.interrupt, 1)
    const message: ToMain = { type: 'interrupt' }
    requests.postMessage(message)
    // Until the main thread has taken it, as a message or as the end of its guard.
    while (Atomics.load(words, word.interrupt) === 1) {
      if (Atomics.wait(words, word.interrupt, 1, recheckMs) !== 'timed-out') continue
      if (Atomics.load(words, word.guarded) === 1) process.kill(process.pid, 'SIGINT')
    }
  }

  const outer = (): void => {
    for (;;) {
      if (interrupted(sleep)) interruptMain()
    }
  }
  for (;;) {
    if (interrupted(outer)) interruptMain()
  }
}

/** Runs work as a script that a signal ends; true when one did. */
function interrupted(work: () => void): boolean {
  Reflect.set(globalThis, '__work__', work)
  try {
    watch.runInThisContext({ breakOnSigint: true, displayErrors: false })
    return false
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') return true
    throw error
  }
}
