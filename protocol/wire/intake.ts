/**
 * Credit on the way in: what each open channel may still be sent, and what is to be given back. Bytes are given back when the
 * value they belong to was consumed, in portions, so that WINDOW frames stay rare.
 */
import { RoomdError } from '../errors.ts'
import { INITIAL_CREDIT } from '../frames.ts'

/** Consumed bytes are given back once they are this many. */
const RETURN_AT = INITIAL_CREDIT / 4

interface Incoming {
  /** Bytes the sender may still send; below zero while a long value is finished. */
  left: number
  consumed: number
}

export class Intake {
  readonly #channels = new Map<number, Incoming>([[0, { left: INITIAL_CREDIT, consumed: 0 }]])
  readonly #giveBack: (channel: number, bytes: number) => void

  constructor(giveBack: (channel: number, bytes: number) => void) {
    this.#giveBack = giveBack
  }

  open(channel: number): void {
    if (!this.#channels.has(channel)) this.#channels.set(channel, { left: INITIAL_CREDIT, consumed: 0 })
  }

  close(channel: number): void {
    if (channel !== 0) this.#channels.delete(channel)
  }

  isOpen(channel: number): boolean {
    return this.#channels.has(channel)
  }

  /** A frame that costs credit arrived. Throws when its value was begun without any. */
  take(channel: number, bytes: number, first: boolean): void {
    const incoming = this.#channels.get(channel)
    if (incoming === undefined) return
    if (first && incoming.left <= 0)
      throw new RoomdError(
        'overloaded',
        `a value was begun on channel ${channel} without credit; wait for WINDOW before sending more`,
      )
    incoming.left -= bytes
  }

  /** Values of so many bytes were consumed. */
  consumed(channel: number, bytes: number): void {
    const incoming = this.#channels.get(channel)
    if (incoming === undefined) return
    incoming.consumed += bytes
    if (incoming.consumed < RETURN_AT) return
    const back = incoming.consumed
    incoming.left += back
    incoming.consumed = 0
    this.#giveBack(channel, back)
  }
}
