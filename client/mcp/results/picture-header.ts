/**
 * What the first and last bytes of a picture say: whether it is what it claims to be and whole, and how large. Enough to pass most
 * pictures on without decoding them; a file that lies further inside is found by whoever decodes it.
 */
export interface PictureSize {
  readonly width: number
  readonly height: number
}

/** null: no picture of this type, or not all of it. */
export function readPictureHeader(bytes: Buffer, mime: string): PictureSize | null {
  const size = readers[mime]?.(bytes) ?? null
  return size !== null && size.width > 0 && size.height > 0 ? size : null
}

const readers: Readonly<Record<string, (bytes: Buffer) => PictureSize | null>> = {
  'image/png': png,
  'image/jpeg': jpeg,
  'image/gif': gif,
  'image/webp': webp,
}

function png(bytes: Buffer): PictureSize | null {
  if (bytes.length < 45 || bytes.toString('latin1', 0, 8) !== '\x89PNG\r\n\x1a\n') return null
  if (bytes.toString('latin1', 12, 16) !== 'IHDR' || !bytes.subarray(-64).includes('IEND')) return null
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
}

/** The frame header is behind segments of any length. */
function jpeg(bytes: Buffer): PictureSize | null {
  if (bytes.length < 4 || bytes.readUInt16BE(0) !== 0xffd8) return null
  // Some writers fill up behind the end mark.
  if (!bytes.subarray(-1024).includes(Buffer.from([0xff, 0xd9]))) return null
  for (let at = 2; at + 9 < bytes.length; ) {
    if (bytes[at] !== 0xff) return null
    const marker = bytes[at + 1] ?? 0
    if (marker === 0xff) {
      at++
      continue
    }
    const frame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
    if (frame) return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) }
    at += 2 + bytes.readUInt16BE(at + 2)
  }
  return null
}

function gif(bytes: Buffer): PictureSize | null {
  if (bytes.length < 14 || !/^GIF8[79]a$/.test(bytes.toString('latin1', 0, 6))) return null
  if (!bytes.subarray(-16).includes(0x3b)) return null
  return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
}

function webp(bytes: Buffer): PictureSize | null {
  if (bytes.length < 30 || bytes.toString('latin1', 0, 4) !== 'RIFF') return null
  if (bytes.toString('latin1', 8, 12) !== 'WEBP' || bytes.readUInt32LE(4) + 8 > bytes.length) return null
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
    default:
      return null
  }
}
