/**
 * Who is where in a room: y-protocols awareness states, relayed between peers and kept for late ones. Never journaled; an entry
 * expires 45 s after its last heartbeat and goes with its peer.
 *
 * Awareness update: `varUint count`, then per entry `varUint client | varUint clock | varString JSON state` (`null`: gone).
 */
import * as decoding from 'lib0/decoding'
import * as encoding from 'lib0/encoding'
import { EPHEMERAL_AWARENESS } from '../../protocol/channels.ts'

export const PRESENCE_EXPIRY_MS = 45_000
/** Entries kept of one peer: an editor has one; more than a few is a fault. */
const MAX_ENTRIES_PER_PEER = 16

interface Entry {
  readonly peerId: string
  readonly clock: number
  readonly state: string
  readonly at: number
}

export class Presence {
  readonly #entries = new Map<number, Entry>()

  /**
   * Takes a peer's EPHEMERAL payload. Returns what is new in it, to be relayed, or null. Editors say again what they heard of
   * others (y-websocket's provider does): that is no news, and makes nobody the owner of another's entry.
   */
  accept(peerId: string, payload: Uint8Array, now: number): Uint8Array | null {
    const entries = parse(payload)
    if (!entries) return null
    const news = entries.filter((entry) => this.#take(peerId, entry, now))
    if (news.length === entries.length) return entries.length > 0 ? payload : null
    return news.length > 0 ? write(news) : null
  }

  #take(peerId: string, { client, clock, state }: AwarenessEntry, now: number): boolean {
    const known = this.#entries.get(client)
    if (state === 'null') {
      // As y-protocols has it: gone at the clock that is known, or later. Others may only have lost sight of it.
      if (known && (known.clock > clock || known.peerId !== peerId)) return false
      this.#entries.delete(client)
      return true
    }
    if (known && known.clock >= clock) return false
    if (!known && this.#countOf(peerId) >= MAX_ENTRIES_PER_PEER) return false
    this.#entries.set(client, { peerId, clock, state, at: now })
    return true
  }

  /** All live states as EPHEMERAL payloads, for a peer that comes. */
  current(now: number): Uint8Array[] {
    this.#expire(now)
    return [...this.#entries].map(([client, entry]) =>
      write([{ client, clock: entry.clock, state: entry.state }]),
    )
  }

  /**
   * Forgets a peer's entries; the payload tells the others, or null when it had none. Under the clock that was: a peer that comes
   * back counts on from there.
   */
  drop(peerId: string): Uint8Array | null {
    const gone = [...this.#entries].filter(([, entry]) => entry.peerId === peerId)
    for (const [client] of gone) this.#entries.delete(client)
    if (gone.length === 0) return null
    // At the clock that everybody knows: a client that comes back at once is seen with its next heartbeat.
    return write(gone.map(([client, entry]) => ({ client, clock: entry.clock, state: 'null' })))
  }

  #expire(now: number): void {
    for (const [client, entry] of this.#entries) {
      if (now - entry.at > PRESENCE_EXPIRY_MS) this.#entries.delete(client)
    }
  }

  #countOf(peerId: string): number {
    let count = 0
    for (const entry of this.#entries.values()) if (entry.peerId === peerId) count++
    return count
  }
}

interface AwarenessEntry {
  readonly client: number
  readonly clock: number
  readonly state: string
}

function parse(payload: Uint8Array): AwarenessEntry[] | null {
  try {
    const outer = decoding.createDecoder(payload)
    if (decoding.readUint8(outer) !== EPHEMERAL_AWARENESS) return null
    const count = decoding.readVarUint(outer)
    const entries: AwarenessEntry[] = []
    for (let i = 0; i < count; i++) {
      const client = decoding.readVarUint(outer)
      const clock = decoding.readVarUint(outer)
      const state = decoding.readVarString(outer)
      JSON.parse(state)
      entries.push({ client, clock, state })
    }
    return entries
  } catch {
    // Presence is advice: a malformed one is dropped, as a lost one would be.
    return null
  }
}

function write(entries: readonly AwarenessEntry[]): Uint8Array {
  const encoder = encoding.createEncoder()
  encoding.writeUint8(encoder, EPHEMERAL_AWARENESS)
  encoding.writeVarUint(encoder, entries.length)
  for (const { client, clock, state } of entries) {
    encoding.writeVarUint(encoder, client)
    encoding.writeVarUint(encoder, clock)
    encoding.writeVarString(encoder, state)
  }
  return encoding.toUint8Array(encoder)
}
