/**
 * The frame table: types, caps, lanes, directions. PROTOCOL.md shows the same table; a test compares them.
 * Frame: `u32 length | u8 type | u8 flags | u32 channel | payload`, big endian, length of the payload alone.
 */

/** Bytes before a frame's payload. */
export const HEADER_BYTES = 10
/** Largest payload of one physical frame; longer values are runs of frames with `FLAG_MORE`. */
export const MAX_FRAME_PAYLOAD = 256 * 1024
/** Flag bit 0: this value goes on in the next frame of the same type and channel. */
export const FLAG_MORE = 1

export const FrameType = {
  HELLO: 0x01,
  WELCOME: 0x02,
  OPEN: 0x03,
  OPENED: 0x04,
  CLOSE: 0x05,
  ERROR: 0x06,
  REQUEST: 0x10,
  RESPONSE: 0x11,
  CANCEL: 0x12,
  EVENT: 0x20,
  EPHEMERAL: 0x21,
  READINESS: 0x22,
  PROJECTION: 0x23,
  DOC: 0x30,
  BLOB: 0x31,
  WINDOW: 0x40,
  PING: 0x41,
  PONG: 0x42,
  GOAWAY: 0x43,
} as const
export type FrameType = (typeof FrameType)[keyof typeof FrameType]
export type FrameName = keyof typeof FrameType

/** Order of preference on the way out: control > reliable > bulk > ephemeral. */
export type Lane = 'control' | 'reliable' | 'bulk' | 'ephemeral'
export type Side = 'client' | 'daemon'

export interface FrameRule {
  readonly name: FrameName
  /** Cap of the whole value, in bytes, however many frames carry it. */
  readonly cap: number
  readonly lane: Lane
  /** Who may send it. */
  readonly from: Side | 'both'
}

const KiB = 1024
const MiB = 1024 * 1024

/** REQUEST values above this ride the reliable lane instead of control. */
export const CONTROL_REQUEST_MAX = 64 * KiB

export const frameRules: Readonly<Record<FrameType, FrameRule>> = {
  [FrameType.HELLO]: { name: 'HELLO', cap: 64 * KiB, lane: 'control', from: 'client' },
  [FrameType.WELCOME]: { name: 'WELCOME', cap: 64 * KiB, lane: 'control', from: 'daemon' },
  [FrameType.OPEN]: { name: 'OPEN', cap: 64 * KiB, lane: 'control', from: 'client' },
  [FrameType.OPENED]: { name: 'OPENED', cap: 64 * KiB, lane: 'control', from: 'daemon' },
  [FrameType.CLOSE]: { name: 'CLOSE', cap: 64 * KiB, lane: 'control', from: 'both' },
  [FrameType.ERROR]: { name: 'ERROR', cap: 4 * KiB, lane: 'control', from: 'both' },
  [FrameType.REQUEST]: { name: 'REQUEST', cap: 16 * MiB, lane: 'control', from: 'client' },
  [FrameType.RESPONSE]: { name: 'RESPONSE', cap: 64 * MiB, lane: 'reliable', from: 'daemon' },
  [FrameType.CANCEL]: { name: 'CANCEL', cap: 64, lane: 'control', from: 'client' },
  [FrameType.EVENT]: { name: 'EVENT', cap: 16 * MiB, lane: 'reliable', from: 'daemon' },
  [FrameType.EPHEMERAL]: { name: 'EPHEMERAL', cap: 4 * KiB, lane: 'ephemeral', from: 'both' },
  [FrameType.READINESS]: { name: 'READINESS', cap: 64 * KiB, lane: 'reliable', from: 'daemon' },
  [FrameType.PROJECTION]: { name: 'PROJECTION', cap: 64 * MiB, lane: 'reliable', from: 'daemon' },
  [FrameType.DOC]: { name: 'DOC', cap: 64 * MiB, lane: 'reliable', from: 'both' },
  [FrameType.BLOB]: { name: 'BLOB', cap: 1024 * MiB, lane: 'bulk', from: 'both' },
  [FrameType.WINDOW]: { name: 'WINDOW', cap: 64, lane: 'control', from: 'both' },
  [FrameType.PING]: { name: 'PING', cap: 64, lane: 'control', from: 'both' },
  [FrameType.PONG]: { name: 'PONG', cap: 64, lane: 'control', from: 'both' },
  [FrameType.GOAWAY]: { name: 'GOAWAY', cap: 4 * KiB, lane: 'control', from: 'daemon' },
}

/** Credit a channel starts with, each direction, for reliable + bulk payload bytes. */
export const INITIAL_CREDIT = 1 * MiB
/** Bound of bytes queued on one channel; a peer beyond it is stale. */
export const MAX_QUEUED_CHANNEL = 4 * MiB
/** Bound of bytes queued on one connection. */
export const MAX_QUEUED_CONNECTION = 16 * MiB
/** Both sides have this long for preamble, HELLO and WELCOME. */
export const HANDSHAKE_MS = 5_000
/** PING after this long without reading anything. */
export const PING_IDLE_MS = 15_000
/** Unanswered PINGs after which a connection may be called dead. */
export const PING_LOST = 2
/** Cells in one PROJECTION page. */
export const PROJECTION_PAGE = 200

/** The lane of one value: a REQUEST over 64 KiB leaves the control lane. */
export function laneOf(type: FrameType, bytes: number): Lane {
  if (type === FrameType.REQUEST && bytes > CONTROL_REQUEST_MAX) return 'reliable'
  return frameRules[type].lane
}
