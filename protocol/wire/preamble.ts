/**
 * The first 8 bytes each side sends: "ROOM", lowest version, highest version, two zero bytes that a reader ignores. This and the
 * ERROR frame never change, so that any two versions can tell each other what is wrong.
 */
import type { Side } from '../frames.ts'
import { PROTOCOL_HIGHEST, PROTOCOL_LOWEST } from '../version.ts'

export const PREAMBLE_BYTES = 8
const MAGIC = [0x52, 0x4f, 0x4f, 0x4d] as const

/** Protocol versions one side speaks, both included; 0 to 255. */
export interface VersionRange {
  readonly lowest: number
  readonly highest: number
}

export const ourVersions: VersionRange = { lowest: PROTOCOL_LOWEST, highest: PROTOCOL_HIGHEST }

export function preamble(versions: VersionRange = ourVersions): Uint8Array {
  return Uint8Array.of(...MAGIC, versions.lowest, versions.highest, 0, 0)
}

export type PreambleResult =
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'foreign'; readonly message: string }
  | { readonly kind: 'versions'; readonly versions: VersionRange }

/** Reads the start of what came. Says `foreign` at the first byte that is not ours, without waiting for eight. */
export function readPreamble(bytes: Uint8Array): PreambleResult {
  for (let at = 0; at < Math.min(MAGIC.length, bytes.length); at++) {
    if (bytes[at] !== MAGIC[at]) return foreign(bytes)
  }
  const [lowest, highest] = [bytes[4], bytes[5]]
  if (bytes.length < PREAMBLE_BYTES || lowest === undefined || highest === undefined)
    return { kind: 'incomplete' }
  if (lowest > highest) return foreign(bytes)
  return { kind: 'versions', versions: { lowest, highest } }
}

function foreign(bytes: Uint8Array): PreambleResult {
  const seen = Array.from(bytes.subarray(0, PREAMBLE_BYTES), (byte) =>
    byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
  ).join('')
  return {
    kind: 'foreign',
    message: `the other side does not speak roomd's protocol: its first bytes are "${seen}" and not "ROOM" with two versions; connect to the socket that "roomd status" names`,
  }
}

export type VersionChoice =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'none'; readonly message: string }

/** The highest version both speak, or a message that says which side to update. `side` is ours. */
export function chooseVersion(side: Side, ours: VersionRange, theirs: VersionRange): VersionChoice {
  const version = Math.min(ours.highest, theirs.highest)
  if (version >= Math.max(ours.lowest, theirs.lowest)) return { kind: 'version', version }
  const other: Side = side === 'client' ? 'daemon' : 'client'
  const older = ours.highest < theirs.lowest ? side : other
  return {
    kind: 'none',
    message: `no common protocol version: this ${side} speaks ${span(ours)}, the ${other} ${span(theirs)}; update the ${older}`,
  }
}

function span({ lowest, highest }: VersionRange): string {
  return lowest === highest ? `${lowest}` : `${lowest} to ${highest}`
}
