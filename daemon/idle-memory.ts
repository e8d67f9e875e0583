/**
 * Gives memory back when nothing happens. V8 collects only when something is allocated, so that a daemon which was busy once would
 * keep for hours what it needed then. Whenever the loop was idle for a while and there is something to gain, two collections run: the
 * first frees, and the second makes V8 shrink the space of new objects too, which it does only when hardly anything was allocated in
 * the last five seconds. Each takes some tens of milliseconds at most, which is why they wait for a quiet moment.
 */
import { memoryUsage } from 'node:process'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Clock } from '../protocol/clock.ts'

const LOOK_MS = 2_000
/** Share of the time that the loop may have worked since the last look. */
const IDLE_BELOW = 0.05
/** Bytes beyond what the last collection left in use that are worth another. */
const WORTH_BYTES = 4 * 1024 * 1024
/** Idle looks between the two: longer than V8 looks back. */
const LOOKS_BETWEEN = 3

/** What it looks at, in the process or in a test. */
export interface Process {
  /** Share of the time since the last call in which the loop worked, from 0 to 1. */
  utilization(): number
  /** Bytes that are in use, or wait to be collected. */
  heap(): number
  collect(): void
}

export class IdleMemory {
  readonly #clock: Clock
  readonly #process: Process
  /** In use after the last collection; 0: there was none. */
  #left = 0
  /** Idle looks until the second collection; null: it is not due. */
  #second: number | null = null
  #cancel: () => void = () => {}

  constructor(clock: Clock, process: Process = thisProcess()) {
    this.#clock = clock
    this.#process = process
    this.#wait()
  }

  dispose(): void {
    this.#cancel()
  }

  #wait(): void {
    this.#cancel = this.#clock.after(LOOK_MS, () => {
      this.#look()
      this.#wait()
    })
  }

  #look(): void {
    if (this.#process.utilization() > IDLE_BELOW) {
      if (this.#second !== null) this.#second = LOOKS_BETWEEN
    } else if (this.#process.heap() >= this.#left + WORTH_BYTES) {
      this.#process.collect()
      this.#left = this.#process.heap()
      this.#second = LOOKS_BETWEEN
    } else if (this.#second !== null && --this.#second === 0) {
      this.#process.collect()
      this.#second = null
    }
  }
}

/** The process that this runs in. */
export function thisProcess(): Process {
  let before = performance.eventLoopUtilization()
  let collect: (() => void) | null = null
  return {
    utilization() {
      const now = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(now, before)
      before = now
      return utilization
    },
    heap: () => memoryUsage().heapUsed,
    collect() {
      if (collect === null) {
        // Only contexts that are made under this flag have the function.
        setFlagsFromString('--expose-gc')
        collect = runInNewContext('gc') as () => void
        setFlagsFromString('--no-expose-gc')
      }
      // Pages that are mostly free are emptied and given back, not only those that are nearly empty.
      setFlagsFromString('--optimize-for-size')
      collect()
      setFlagsFromString('--no-optimize-for-size')
    },
  }
}
