/**
 * Blobs on their way: `fetch_blob` is answered with a size, then one BLOB value follows (32 bytes of digest, the content). One
 * flight for each blob, however many ask for it; a connection that is lost between answer and value asks again.
 */
import { RoomdError } from '../../protocol/errors.ts'
import type { BlobHash } from '../../protocol/ids.ts'
import { unlessAborted } from './unless-aborted.ts'

const DIGEST_BYTES = 32

interface Flight {
  readonly done: Promise<Uint8Array>
  readonly arrived: (content: Uint8Array) => void
  readonly interrupted: () => void
}

type Ask = (blob: BlobHash) => Promise<{ size: number }>

export class BlobFetches {
  readonly #ask: Ask
  readonly #flights = new Map<string, Flight>()

  constructor(ask: Ask) {
    this.#ask = ask
  }

  async fetch(blob: BlobHash, options: { signal?: AbortSignal | undefined } = {}): Promise<Uint8Array> {
    const flight = this.#flights.get(blob) ?? this.#start(blob)
    // One who leaves does not end the flight of the others.
    return unlessAborted(flight.done, options.signal, `fetching blob ${blob}`)
  }

  /** A BLOB value. */
  received(payload: Uint8Array): void {
    const hash = hex(payload.subarray(0, DIGEST_BYTES))
    this.#flights.get(hash)?.arrived(payload.subarray(DIGEST_BYTES))
  }

  /** The connection is gone: values that were announced do not come. */
  interrupted(): void {
    for (const flight of this.#flights.values()) flight.interrupted()
  }

  #start(blob: BlobHash): Flight {
    let arrived: (content: Uint8Array) => void = () => {}
    let interrupted = (): void => {}
    const run = async (): Promise<Uint8Array> => {
      for (;;) {
        const content = new Promise<Uint8Array | null>((resolve) => {
          arrived = resolve
          interrupted = () => resolve(null)
        })
        // Announced twice when the question was sent again: either value is the content.
        const { size } = await this.#ask(blob)
        const bytes = await content
        if (!bytes) continue
        await verify(blob, bytes, size)
        return bytes
      }
    }
    const flight: Flight = {
      done: run().finally(() => this.#flights.delete(blob)),
      arrived: (content) => arrived(content),
      interrupted: () => interrupted(),
    }
    flight.done.catch(() => {}) // whoever asked gets it
    this.#flights.set(blob, flight)
    return flight
  }
}

async function verify(blob: BlobHash, bytes: Uint8Array, size: number): Promise<void> {
  if (bytes.length !== size)
    throw new RoomdError('client_protocol', `blob ${blob} has ${bytes.length} bytes instead of ${size}`)
  // Absent in pages that were not loaded securely.
  const subtle = (globalThis.crypto as typeof globalThis.crypto | undefined)?.subtle
  if (!subtle) return
  const digest = new Uint8Array(await subtle.digest('SHA-256', new Uint8Array(bytes)))
  if (hex(digest) !== blob)
    throw new RoomdError('client_protocol', `the content of blob ${blob} does not match it`)
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
