/**
 * What is known of the kernel's memory when it is gone: the system forgets both with the process, so both are looked at while it
 * lives, often while a cell runs and seldom else.
 */
import type { Clock } from '../../protocol/clock.ts'
import { type OomKills, oomKillsRose, readOomKills } from './out-of-memory.ts'
import { peakMemory } from './process-identity.ts'

const BUSY_MS = 500
const IDLE_MS = 10_000

export class MemoryWatch {
  readonly #clock: Clock
  readonly #pid: number | null
  #peak: number | null = null
  #kills: OomKills
  /** A look earlier: the last one may have come between the kill and the end of the process, which takes its time. */
  #killsBefore: OomKills
  #cancel: () => void = () => {}
  #busy = false

  /** `pid` null: the kernel could not be started, and nothing is watched. */
  constructor(clock: Clock, pid: number | null) {
    this.#clock = clock
    this.#pid = pid
    this.#kills = pid === null ? new Map() : readOomKills(pid)
    this.#killsBefore = this.#kills
    this.#next()
  }

  /** The most resident memory (bytes) it was seen with; null where that cannot be told. */
  get peak(): number | null {
    this.#lookAtPeak()
    return this.#peak
  }

  /** A cell runs: memory may go up fast. */
  busy(busy: boolean): void {
    if (busy === this.#busy) return
    this.#busy = busy
    this.#next()
  }

  /** Call when the kernel has ended by SIGKILL that nobody of us sent: whether the system did it for want of memory. */
  ranOut(): boolean {
    return oomKillsRose(this.#killsBefore)
  }

  dispose(): void {
    this.#cancel()
    this.#cancel = () => {}
  }

  #next(): void {
    this.#cancel()
    if (this.#pid === null) return
    this.#cancel = this.#clock.after(this.#busy ? BUSY_MS : IDLE_MS, () => {
      this.#look()
      this.#next()
    })
  }

  #look(): void {
    if (this.#pid === null || !this.#lookAtPeak()) return
    this.#killsBefore = this.#kills
    this.#kills = readOomKills(this.#pid)
  }

  /** false: the process is gone. */
  #lookAtPeak(): boolean {
    const now = this.#pid === null ? null : peakMemory(this.#pid)
    if (now === null) return false
    this.#peak = Math.max(this.#peak ?? 0, now)
    return true
  }
}
