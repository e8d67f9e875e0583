/** What a room tells its listeners, and how EVENT frames are read. */

import type { Opened } from '../../protocol/channels.ts'
import { decode } from '../../protocol/codec.ts'
import type { RoomdError } from '../../protocol/errors.ts'
import { DurableEvent, EventEnvelope, type RoomEvent, TransientEvent } from '../../protocol/events.ts'
import { readTextEvent } from './text-events.ts'

/** The connection was made again and the room is at the daemon's state. */
export interface Resumed {
  readonly boot_id: string
  /** Another daemon process answers than before. */
  readonly replaced: boolean
  /** How: nothing was missed, missed events were told, or everything was shown afresh. */
  readonly picture: Opened['picture']
  readonly from: { readonly event_seq: number; readonly doc_seq: number }
  readonly to: { readonly event_seq: number; readonly doc_seq: number }
}

type ByType = { [Type in RoomEvent['type']]: Extract<RoomEvent, { type: Type }> }

/**
 * Events of the room itself under their own type (`cells`, `output`, `execution_finished`, `gap`, …), each exactly once and in
 * the one order all peers see; `event` carries all of them with their numbers. The mirror includes an event before it is told.
 */
export interface RoomEvents extends ByType {
  event: EventEnvelope
  /** The connection was lost; the client makes it again by itself. */
  away: undefined
  resumed: Resumed
  /** The room cannot be had any more; the code says why (`notebook_unavailable`: it is gone). Nothing follows. */
  lost: RoomdError
}

const known: ReadonlySet<string> = new Set(
  [...DurableEvent.options, ...TransientEvent.options].map((option) => option.shape.type.value),
)

/** A kind of event that a newer daemon added counts, but says nothing here. */
export type ReadEvent =
  | { readonly kind: 'known'; readonly envelope: EventEnvelope }
  | { readonly kind: 'unknown'; readonly eventSeq: number | undefined }

/** Throws for what is no event at all. */
export function readEvent(payload: Uint8Array): ReadEvent {
  const value = decode(payload)
  const texts = readTextEvent(value)
  if (texts) return { kind: 'known', envelope: texts }
  const type = (value as { event?: { type?: unknown } } | null)?.event?.type
  if (typeof type === 'string' && !known.has(type)) {
    const eventSeq = (value as { event_seq?: unknown }).event_seq
    return { kind: 'unknown', eventSeq: typeof eventSeq === 'number' ? eventSeq : undefined }
  }
  return { kind: 'known', envelope: EventEnvelope.parse(value) }
}

/** A `cells` event of several edits as one event for each, in order; any other as it is. */
export function* eachEdit(envelope: EventEnvelope): Generator<EventEnvelope> {
  const { event } = envelope
  if (event.type !== 'cells' || !event.parts) {
    yield envelope
    return
  }
  const { parts, ...rest } = event
  let docSeq = event.doc_seq - parts.length
  let at = 0
  for (const count of parts) {
    const changes = event.changes.slice(at, at + count)
    at += count
    yield { ...envelope, event: { ...rest, doc_seq: ++docSeq, changes } }
  }
}
