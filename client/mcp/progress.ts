/**
 * Live output as progress notifications: whole lines, at most one notification every 100 ms, at most 4 KiB of text each (of more, the
 * newest lines and how many are not shown). The numbers rise by the lines told.
 */
import type { Clock } from '../../protocol/clock.ts'
import { lastBytes, plain } from './results/model-text.ts'

const EVERY = 100
const TEXT = 4 * 1024

export type SendProgress = (progress: number, message: string) => void

export class ProgressTeller {
  readonly #clock: Clock
  readonly #send: SendProgress
  #rest = ''
  #lines: string[] = []
  #dropped = 0
  #told = 0
  #stopTimer: (() => void) | null = null
  #ended = false

  constructor(clock: Clock, send: SendProgress) {
    this.#clock = clock
    this.#send = send
  }

  /** New text of the output; a last line without an end waits for it. */
  add(text: string): void {
    if (this.#ended) return
    // Text that was rewritten begins with the terminal's words for that; the newest state of a line is what counts.
    const parts = (this.#rest + text).split('\n')
    this.#rest = lastBytes(parts.pop() ?? '', TEXT)
    this.#lines.push(...parts)
    if (this.#lines.length > 1_000) this.#dropped += this.#lines.splice(0, this.#lines.length - 1_000).length
    if (this.#lines.length === 0 || this.#stopTimer) return
    this.#tell()
    this.#stopTimer = this.#clock.after(EVERY, () => {
      this.#stopTimer = null
      if (this.#lines.length > 0) this.add('')
    })
  }

  /** Nothing is told any more: the call is answered. */
  dispose(): void {
    this.#ended = true
    this.#stopTimer?.()
  }

  #tell(): void {
    const lines = this.#lines
    const dropped = this.#dropped
    this.#lines = []
    this.#dropped = 0
    this.#told += lines.length + dropped
    const whole = plain(lines.join('\n'))
    const message = lastBytes(whole, TEXT)
    const missing = dropped + whole.slice(0, whole.length - message.length).split('\n').length - 1
    this.#send(this.#told, missing > 0 ? `… ${missing} lines not shown …\n${message}` : message)
  }
}
