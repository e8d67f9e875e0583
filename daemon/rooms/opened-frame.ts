/**
 * OPENED as a frame. It has a bound, and notebooks keep what they like in their metadata (the state of widgets, megabytes of it): what does
 * not fit is left out of OPENED and follows as the first value of the picture.
 */
import type { Opened, Projection } from '../../protocol/channels.ts'
import { encode } from '../../protocol/codec.ts'
import { FrameType, frameRules } from '../../protocol/frames.ts'
import { sizeOf } from '../documents/size.ts'
import type { PictureValue } from './peer.ts'

/** Metadata of fewer characters are never left out of OPENED that fits with them. */
const SMALL = 4 * 1024
/** What clients look at before anything else; kept where it is small. */
const KEPT = ['kernelspec', 'language_info']

/** `follows`: the metadata are not all in it, so that `metadataValue` must follow. */
export function encodeOpened(opened: Opened): { payload: Uint8Array; follows: boolean } {
  // What is far over the bound is not encoded to find that out.
  if (sizeOf(opened.metadata) <= frameRules[FrameType.OPENED].cap) {
    const payload = encode(opened)
    if (payload.length <= frameRules[FrameType.OPENED].cap) return { payload, follows: false }
  }
  const kept = Object.fromEntries(Object.entries(opened.metadata).filter(([key]) => KEPT.includes(key)))
  const metadata = sizeOf(kept) <= SMALL ? kept : {}
  return { payload: encode({ ...opened, metadata, metadata_follows: true }), follows: true }
}

/** All of the notebook's metadata, before the cells of a picture. */
export function metadataValue(metadata: Record<string, unknown>): PictureValue {
  const value: Projection = { kind: 'metadata', metadata }
  return { type: FrameType.PROJECTION, make: () => encode(value) }
}
