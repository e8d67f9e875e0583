/**
 * Makes user code on the main thread interruptible wherever it runs. `vm` ends a script on SIGINT within about a millisecond and
 * hands the caller an ordinary error (`breakOnSigint`), but only while that script is on the stack. So user code is entered
 * through a guard: cells, timer callbacks, and — through an async hook — the promise continuations that follow any event of the
 * loop. Not covered is the synchronous part of a callback that Node's own I/O calls directly.
 *
 * An interrupt may cut async resources short, which leaves Node's stack of async ids unbalanced. Node clears that stack when an
 * uncaught exception was handled, so the interrupt error of a guard must always reach the event loop uncaught.
 */
import { createHook, executionAsyncResource } from 'node:async_hooks'
import vm from 'node:vm'
import { hidden } from './hidden.ts'
import { awaitSignal, signalHeard } from './inner-signal.ts'
import { type SharedMemory, word } from './ring.ts'

const enter = new vm.Script(`${hidden}.enter()`, { filename: 'kernel-guard' })
/** How long the continuations of an interrupted guard may compute. */
const continuationsMs = 100
/** Kept from before user code's becomes a wrapped one. */
const nextTurn = setImmediate
let job: (() => void) | undefined
let depth = 0
let drainDue = false
let words: Int32Array | undefined

/** Tells the sentinel of guards from now on. */
export function announceGuards(memory: SharedMemory): void {
  words = memory.words
}

/** For the guard's script only. */
export function enterGuard(): void {
  const run = job
  job = undefined
  run?.()
}

/**
 * Runs `work`, then the promise continuations and ticks that are due, all of it interruptible. Throws what `work` throws, or the
 * interrupt error.
 */
export function guarded(work: () => void): void {
  if (depth > 0) {
    work()
    return
  }
  depth += 1
  job = () => {
    // Only now does this script hear signals.
    if (words) Atomics.store(words, word.guarded, 1)
    work()
    drainDue = false
    runTicks()
  }
  try {
    enter.runInThisContext({ breakOnSigint: true, displayErrors: false })
  } catch (error) {
    if (isInterrupt(error)) {
      if (words) signalHeard(words)
      clearInterrupt()
      endContinuations()
    }
    throw error
  } finally {
    depth -= 1
    job = undefined
    if (words) Atomics.store(words, word.guarded, 0)
  }
}

/**
 * An interrupt that came before the continuations ran leaves them waiting, and one of them may be a chain without end that no
 * second interrupt is coming for. They get a short time here; what runs then is cut, and V8 drops the rest.
 */
function endContinuations(): void {
  job = () => {
    drainDue = false
    runTicks()
  }
  try {
    enter.runInThisContext({ timeout: continuationsMs, displayErrors: false })
  } catch (error) {
    // What a tick throws is reported as if it had thrown in a turn of its own.
    if ((error as NodeJS.ErrnoException | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT')
      nextTurn(() => {
        throw error
      })
  }
}

/** True when an interrupt that came as a message is still to be obeyed; it is from then on. */
export function acceptInterrupt(): boolean {
  if (!clearInterrupt()) return false
  if (words) awaitSignal(words)
  return true
}

function clearInterrupt(): boolean {
  if (!words || Atomics.exchange(words, word.interrupt, 0) === 0) return false
  Atomics.notify(words, word.interrupt)
  return true
}

/** True for the error that a guard throws on SIGINT. */
export function isInterrupt(error: unknown): boolean {
  return (
    error instanceof Error && (error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED'
  )
}

/** `process._tickCallback` is what Node's own REPL and test runners use: it runs next ticks and microtasks now. */
const tickCallback: unknown = Reflect.get(process, '_tickCallback')

function runTicks(): void {
  if (typeof tickCallback === 'function') Reflect.apply(tickCallback, process, [])
}

const drain = (): void => {
  if (drainDue && depth === 0) guarded(() => {})
}

/** From now on continuations after each event of the loop run in a guard. */
export function guardContinuations(): void {
  createHook({
    before() {
      if (depth > 0 || drainDue) return
      const resource: object = executionAsyncResource()
      // Promises and ticks run within the turn that an event has started: that event has arranged for them.
      if (resource instanceof Promise || 'callback' in resource) return
      drainDue = true
      process.nextTick(drain)
    },
  }).enable()
}

/** The timers of user code enter through the guard. */
export function guardTimers(): void {
  for (const name of ['setTimeout', 'setInterval', 'setImmediate'] as const) {
    const original = globalThis[name] as (callback: unknown, ...rest: unknown[]) => unknown
    const wrapped = function (this: unknown, callback: unknown, ...rest: unknown[]): unknown {
      if (typeof callback !== 'function') return original.call(this, callback, ...rest)
      const guardedCallback = function (this: unknown, ...args: unknown[]): void {
        guarded(() => Reflect.apply(callback, this, args))
      }
      return original.call(this, guardedCallback, ...rest)
    }
    Object.defineProperty(wrapped, 'name', { value: name })
    // util.promisify(setTimeout) and the like find their promise version under a symbol.
    for (const symbol of Object.getOwnPropertySymbols(original)) {
      const descriptor = Object.getOwnPropertyDescriptor(original, symbol)
      if (descriptor) Object.defineProperty(wrapped, symbol, descriptor)
    }
    Reflect.set(globalThis, name, wrapped)
  }
}
