/**
 * One room's channel, across connections: opens it, opens it again after a loss with what was seen last, and says when the room
 * is gone. At most one channel is open or being opened; frames of an earlier one never come through.
 *
 * waiting → opening → open → waiting → … → ended. Ended once, by `close` or because the daemon says that the room cannot be
 * had any more.
 */
import { Close, type Open, Opened } from '../../protocol/channels.ts'
import type { Clock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { RoomdError, wireCodes } from '../../protocol/errors.ts'
import { FrameType } from '../../protocol/frames.ts'
import type { NotebookId } from '../../protocol/ids.ts'
import type { Backoff } from './backoff.ts'
import type { Connection } from './connection.ts'
import type { Channel, Link } from './link.ts'

export interface AttachmentHandlers {
  /** What is asked for the next time; before the first OPENED also the target. */
  open(): Open
  /** The channel can be used. Throwing ends the connection. */
  opened(opened: Opened, channel: Channel, link: Link): void
  /** OPENED once more: what was told of a room that was loading is no more so. */
  openedAgain(opened: Opened): void
  value(type: FrameType, payload: Uint8Array): void
  writable(): void
  /** The channel is gone and will be opened again. */
  away(): void
  /** Once: the room cannot be had any more. */
  lost(error: RoomdError): void
}

export interface AttachmentOptions {
  readonly connection: Connection
  readonly clock: Clock
  readonly backoff: Backoff
  readonly handlers: AttachmentHandlers
}

/** Worth the same try again, though the code says that a person must act: the daemon goes away, and its successor is asked. */
const RETRIED = new Set(['shutting_down', 'daemon_replaced'])
/** A document that the room refuses time and again is not offered for ever. */
const MAX_SYNC_FAILURES = 5

export class RoomAttachment {
  readonly #options: AttachmentOptions
  readonly #stopListening: () => void
  #channel: Channel | null = null
  #open = false
  #everOpen = false
  #ended = false
  #syncFailures = 0
  #stopRetry = () => {}
  #needed = () => {}

  constructor(options: AttachmentOptions) {
    this.#options = options
    this.#stopListening = options.connection.on('up', (link) => {
      options.backoff.reset()
      this.#attach(link)
    })
  }

  /** Opens the channel at once or with the next connection. Until the first OPENED, a daemon that stays away ends it. */
  start(): void {
    const { connection } = this.#options
    this.#needed = connection.needDaemon((error) => this.#lost(error))
    if (connection.link) this.#attach(connection.link)
  }

  get isOpen(): boolean {
    return this.#open
  }

  /** Opens a new channel in place of this one: what arrived does not fit together. */
  again(reason: string): void {
    if (this.#ended || !this.#open) return
    this.#leave('closed', reason)
    this.#retry()
  }

  /** Detaches for good. Idempotent. */
  close(reason: string): void {
    if (this.#ended) return
    this.#end()
    this.#leave('closed', reason)
  }

  #attach(link: Link): void {
    if (this.#ended || this.#channel || link.ended) return
    this.#stopRetry()
    const channel: Channel = link.openChannel({
      value: (type, payload) => {
        if (this.#channel === channel) this.#value(type, payload, channel, link)
      },
      writable: () => {
        if (this.#channel === channel && this.#open) this.#options.handlers.writable()
      },
      ended: () => {
        if (this.#channel === channel) this.#gone()
      },
    })
    this.#channel = channel
    channel.send(FrameType.OPEN, encode(this.#options.handlers.open()))
  }

  #value(type: FrameType, payload: Uint8Array, channel: Channel, link: Link): void {
    const { handlers, backoff, clock } = this.#options
    if (type === FrameType.CLOSE) {
      this.#closed(Close.parse(decode(payload)), link)
      return
    }
    if (type !== FrameType.OPENED) {
      // The room was loading, and is there.
      if (type === FrameType.READINESS) this.#everOpen = true
      if (this.#open) handlers.value(type, payload)
      return
    }
    if (this.#open) {
      handlers.openedAgain(Opened.parse(decode(payload)))
      return
    }
    const opened = Opened.parse(decode(payload))
    this.#open = true
    // Of a room that is loading only the beginning is known to be there.
    if (opened.readiness.source.state !== 'loading') this.#everOpen = true
    this.#needed()
    backoff.up(clock.now())
    handlers.opened(opened, channel, link)
  }

  #closed(close: Close, link: Link): void {
    this.#channel?.release()
    const goesAway = link.goingAway && close.code === 'closed'
    if (close.code === 'sync_failed') this.#syncFailures++
    else if (this.#open) this.#syncFailures = 0
    const again =
      goesAway ||
      RETRIED.has(close.code) ||
      // A first open tells its caller, who can try again; a room that was had is not given up for a passing fault.
      (this.#everOpen &&
        close.code !== 'closed' &&
        (close.error?.retryable ?? wireCodes[close.code]) &&
        this.#syncFailures < MAX_SYNC_FAILURES)
    if (!again) {
      this.#channel = null
      this.#open = false
      this.#lost(
        close.error
          ? RoomdError.fromWire(close.error)
          : close.code === 'closed'
            ? new RoomdError('notebook_unavailable', `the room was closed: ${close.reason}`)
            : new RoomdError(close.code, close.reason),
      )
      return
    }
    this.#gone()
    this.#retry()
  }

  /** The channel is gone; the room, as far as is known, is not. */
  #gone(): void {
    const wasOpen = this.#open
    this.#channel = null
    this.#open = false
    this.#options.backoff.down(this.#options.clock.now())
    if (wasOpen && !this.#ended) this.#options.handlers.away()
  }

  #retry(): void {
    const { clock, backoff, connection } = this.#options
    this.#stopRetry()
    this.#stopRetry = clock.after(backoff.next(), () => {
      if (connection.link) this.#attach(connection.link)
    })
  }

  #leave(code: 'closed', reason: string): void {
    const channel = this.#channel
    if (channel) {
      channel.send(FrameType.CLOSE, encode({ code, reason }))
      channel.release()
    }
    this.#gone()
  }

  #lost(error: RoomdError): void {
    if (this.#ended) return
    this.#end()
    this.#leave('closed', error.message)
    this.#options.handlers.lost(error)
  }

  #end(): void {
    this.#ended = true
    this.#stopRetry()
    this.#stopListening()
    this.#needed()
  }
}

/** The OPEN of a room that was attached before: by id, which never creates. */
export function reopen(
  first: Open,
  notebookId: NotebookId,
  seen: { event_seq: number; doc_seq: number },
): Open {
  return { ...first, target: { notebook_id: notebookId }, mode: 'attach', resume: seen }
}
