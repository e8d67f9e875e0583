/**
 * This peer's own presence in a room, told without Yjs: a y-protocols awareness update that it writes itself. Thin clients show
 * where they are with it; once the shared document is loaded, its Awareness takes over, so that a peer is never shown twice.
 *
 * Others drop a state that was not renewed for 30 s, so it is sent again every 15 s with a higher clock. A state of a channel that
 * was lost is gone for the others; the next channel tells it again, with a higher clock too: the last one was used for its removal.
 */
import { EPHEMERAL_AWARENESS } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { Channel } from './link.ts'

/** Bytes of an EPHEMERAL payload. */
const PAYLOAD_MAX = 4096
const RENEWED_EVERY = 15_000

type State = Readonly<Record<string, unknown>>

/** What takes over: y-protocols' Awareness. */
export interface PresenceSuccessor {
  setLocalState(state: Record<string, unknown> | null): void
}

export interface OwnPresenceOptions {
  readonly clock: Clock
  readonly random: () => number
}

export class OwnPresence {
  readonly #clock: Clock
  readonly #client: number
  #count = 0
  #state: State | null = null
  #json = 'null'
  #channel: Channel | null = null
  #unsent = false
  #stopRenewing = () => {}
  #successor: PresenceSuccessor | null = null

  constructor({ clock, random }: OwnPresenceOptions) {
    this.#clock = clock
    this.#client = Math.floor(random() * 0x1_0000_0000)
  }

  /** What others see from now on; null: nothing. Throws `too_large` for more than a frame holds; what was shown stays then. */
  set(state: State | null): void {
    const json = JSON.stringify(state)
    const size = write(this.#client, this.#count + 1, json).length
    if (size > PAYLOAD_MAX) {
      throw new RoomdError(
        'too_large',
        `a presence of ${size} bytes is larger than the ${PAYLOAD_MAX} that one may have; show less`,
      )
    }
    this.#state = state
    if (this.#successor) {
      this.#successor.setLocalState(state === null ? null : { ...state })
      return
    }
    if (json === this.#json) return
    this.#json = json
    this.#tell()
  }

  /** A channel is there (again). */
  attach(channel: Channel): void {
    this.#channel = channel
    if (this.#state !== null) this.#tell()
  }

  detach(): void {
    this.#channel = null
    this.#unsent = false
    this.#stopRenewing()
  }

  /** The channel has room again after a refusal. */
  writable(): void {
    if (this.#unsent) this.#send()
  }

  /** From now on `successor` tells it; the entry made here is taken back. */
  handOver(successor: PresenceSuccessor): void {
    const shown = this.#state
    if (shown !== null) {
      this.set(null)
      successor.setLocalState({ ...shown })
    }
    this.#state = shown
    this.#successor = successor
  }

  /** While the channel is still there: the others see this client leave at once. */
  dispose(): void {
    if (this.#state !== null && !this.#successor) this.set(null)
    this.detach()
  }

  #tell(): void {
    if (!this.#channel) return
    this.#count++
    this.#send()
    this.#stopRenewing()
    if (this.#json !== 'null') this.#stopRenewing = this.#clock.after(RENEWED_EVERY, () => this.#tell())
  }

  #send(): void {
    const payload = write(this.#client, this.#count, this.#json)
    this.#unsent = this.#channel?.offer(FrameType.EPHEMERAL, payload) === false
  }
}

/** An EPHEMERAL payload: kind, then an awareness update with one entry. */
function write(client: number, clock: number, json: string): Uint8Array {
  const text = new TextEncoder().encode(json)
  const head = [EPHEMERAL_AWARENESS, 1, ...varUint(client), ...varUint(clock), ...varUint(text.length)]
  const payload = new Uint8Array(head.length + text.length)
  payload.set(head)
  payload.set(text, head.length)
  return payload
}

/** Seven bits a byte, lowest first, the highest bit set on all but the last. */
function varUint(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest > 127) {
    bytes.push((rest % 128) | 0x80)
    rest = Math.floor(rest / 128)
  }
  bytes.push(rest)
  return bytes
}
