/**
 * The SIGINT that the kernel sends to itself, to reach a main thread that computes. At most one is under way: a second one could
 * arrive when the cell that it was meant for has ended, and hit the next. Whoever hears a signal calls `signalHeard`; who has taken
 * an interrupt another way waits in `awaitSignal` until a signal that is under way has been heard.
 *
 * A signal is lost when nothing watches at the moment of its arrival, so both sides give it up after `lostMs`.
 */
import { word } from './ring.ts'

const lostMs = 50

export class InnerSignal {
  readonly #words: Int32Array
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(words: Int32Array) {
    this.#words = words
  }

  /** Signals the main thread if it is inside a guard and no signal is under way. */
  send(): void {
    // On Windows a signal from within would end the process: only what waits can be interrupted there.
    if (process.platform === 'win32' || Atomics.load(this.#words, word.guarded) === 0) return
    const now = performance.now()
    if (Atomics.exchange(this.#words, word.signalled, 1) === 1 && now - this.#sentAt < lostMs) return
    this.#sentAt = now
    process.kill(process.pid, 'SIGINT')
  }
}

/** True if the signal that was heard is the kernel's own. */
export function signalHeard(words: Int32Array): boolean {
  const own = Atomics.exchange(words, word.signalled, 0) === 1
  if (own) Atomics.notify(words, word.signalled)
  return own
}

/** Returns when no signal of the kernel's own is under way. */
export function awaitSignal(words: Int32Array): void {
  if (Atomics.load(words, word.signalled) === 0) return
  if (Atomics.wait(words, word.signalled, 1, lostMs) === 'timed-out') Atomics.store(words, word.signalled, 0)
}
