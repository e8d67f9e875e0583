/**
 * Whether the other side still lives. Idle for 15 s → PING; after two that stayed unanswered, one last look a moment later, so
 * that what already waits in the socket is read first; still nothing → dead. Anything read counts as an answer. A timer that
 * fires much later than it was due tells that this process was suspended or stalled: then nothing is known about the other
 * side, and the count starts again.
 */
import type { Clock } from '../clock.ts'
import { PING_IDLE_MS, PING_LOST } from '../frames.ts'

/** Lateness of our own timer that counts as a stall. */
const STALL_MS = 2_000
const LAST_LOOK_MS = 1_000

export interface LivenessHost {
  ping(): void
  dead(): void
}

export class Liveness {
  readonly #clock: Clock
  readonly #host: LivenessHost
  #lastRead: number
  #unanswered = 0
  #lastLook = false
  #cancel = () => {}

  constructor(clock: Clock, host: LivenessHost) {
    this.#clock = clock
    this.#host = host
    this.#lastRead = clock.now()
    this.#arm(PING_IDLE_MS)
  }

  /** Something was read. */
  read(): void {
    this.#lastRead = this.#clock.now()
    this.#unanswered = 0
    this.#lastLook = false
  }

  /** Milliseconds since something was read. */
  idle(): number {
    return Math.max(0, this.#clock.now() - this.#lastRead)
  }

  dispose(): void {
    this.#cancel()
  }

  #arm(ms: number): void {
    const due = this.#clock.now() + ms
    this.#cancel = this.#clock.after(ms, () => this.#fired(due))
  }

  #fired(due: number): void {
    const now = this.#clock.now()
    // A wall clock that was set back would otherwise keep PINGs away for as long.
    if (now < this.#lastRead) this.#lastRead = now
    if (now - due > STALL_MS) {
      this.#unanswered = 0
      this.#lastLook = false
    }
    const left = PING_IDLE_MS - (now - this.#lastRead)
    if (this.#unanswered === 0 && left > 0) {
      this.#arm(left)
      return
    }
    if (this.#unanswered < PING_LOST) {
      this.#unanswered++
      this.#host.ping()
      this.#arm(PING_IDLE_MS)
    } else if (!this.#lastLook) {
      this.#lastLook = true
      this.#arm(LAST_LOOK_MS)
    } else {
      this.#host.dead()
    }
  }
}
