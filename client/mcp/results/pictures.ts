/**
 * Pictures as a model may get them: at most 1 MiB and 8,000 pixels a side. What fits is passed on as it is, after a look at its
 * header; the rest is scaled, and SVG is drawn, by a library that is loaded only then. One picture at a time, and never one that
 * would need more memory than 64 million pixels take: a small file can claim any size.
 */
import type { Sharp } from 'sharp'
import { count, sizeOf } from './model-text.ts'
import { type PictureSize, readPictureHeader } from './picture-header.ts'

export const PICTURE_BYTES = 1024 * 1024
/** Bytes of a picture that is read at all. */
export const SOURCE_BYTES = 64 * 1024 * 1024
const SVG_BYTES = 8 * 1024 * 1024
const LONGEST_SIDE = 8_000
const PIXELS = 64_000_000
/** Models see no more of a picture; so nothing is lost where one is made smaller anyway. */
const SEEN_SIDE = 1_568
const SMALLEST_SIDE = 64
/** How much smaller each further attempt is. */
const SHRINK = 0.7
/** Twice the size that the SVG names, so that its text can be read. */
const SVG_DENSITY = 144
const SECONDS = 15

export type Picture =
  | {
      readonly kind: 'shown'
      readonly bytes: Buffer
      readonly mime: string
      /** `2000x1500, 8.6 MiB, shown as 1568x1176 webp`; null: it is as it was. */
      readonly change: string | null
    }
  /** One line that says why it cannot be shown. */
  | { readonly kind: 'refused'; readonly why: string }

/** A png, jpeg, gif or webp. */
export async function showPicture(bytes: Buffer, mime: string): Promise<Picture> {
  const size = readPictureHeader(bytes, mime)
  if (size === null) return refused(`it is no ${mime}, or not all of it`)
  if (size.width * size.height > PIXELS) return refused(tooManyPixels(size))
  const fits = bytes.length <= PICTURE_BYTES && Math.max(size.width, size.height) <= LONGEST_SIDE
  if (fits) return { kind: 'shown', bytes, mime, change: null }
  return drawn(bytes, {}, mime === 'image/jpeg' ? ['jpeg'] : ['png', 'webp'], (shown, format) => {
    const first = mime === 'image/gif' || mime === 'image/webp' ? ' (a moving one: its first frame)' : ''
    return `${size.width}x${size.height}, ${sizeOf(bytes.length)}, shown as ${shown.width}x${shown.height} ${format}${first}`
  })
}

/** An SVG, drawn on white. Nothing that it refers to outside itself is loaded. */
export async function drawSvg(text: string): Promise<Picture> {
  const bytes = Buffer.from(text)
  if (bytes.length > SVG_BYTES) return refused(`an SVG of ${sizeOf(bytes.length)} is not drawn`)
  return drawn(bytes, { density: SVG_DENSITY }, ['png', 'webp'], () => 'an SVG, drawn')
}

function refused(why: string): Picture {
  return { kind: 'refused', why }
}

function tooManyPixels({ width, height }: PictureSize): string {
  return `its ${count(width)}x${count(height)} pixels are more than the ${count(PIXELS)} that are read`
}

type Format = 'png' | 'jpeg' | 'webp'

let before: Promise<unknown> = Promise.resolve()

/** Behind all that were asked for earlier. */
function drawn(
  bytes: Buffer,
  input: { density?: number },
  formats: readonly Format[],
  change: (shown: PictureSize, format: Format) => string,
): Promise<Picture> {
  const work = before.then(() => draw(bytes, input, formats, change))
  before = work
  return work
}

async function draw(
  bytes: Buffer,
  input: { density?: number },
  formats: readonly Format[],
  change: (shown: PictureSize, format: Format) => string,
): Promise<Picture> {
  try {
    const sharp = await load()
    for (let side = SEEN_SIDE; side >= SMALLEST_SIDE; side = Math.round(side * SHRINK)) {
      for (const format of formats) {
        const source = sharp(bytes, { ...input, limitInputPixels: PIXELS, failOn: 'error' })
        const { data, info } = await encoded(
          (input.density === undefined ? source.autoOrient() : source.flatten({ background: '#ffffff' }))
            .timeout({ seconds: SECONDS })
            .resize({ width: side, height: side, fit: 'inside', withoutEnlargement: true }),
          format,
        ).toBuffer({ resolveWithObject: true })
        if (data.length <= PICTURE_BYTES)
          return { kind: 'shown', bytes: data, mime: `image/${format}`, change: change(info, format) }
      }
    }
    return refused('it cannot be made small enough')
  } catch (error) {
    // Broken, a bomb, or no library for this machine: said, and the rest of the result is as good as without.
    const said = (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? ''
    return refused(`it could not be read: ${said.slice(0, 200)}`)
  }
}

function encoded(picture: Sharp, format: Format): Sharp {
  switch (format) {
    case 'png':
      return picture.png({ compressionLevel: 9 })
    case 'jpeg':
      return picture.jpeg({ quality: 82 })
    case 'webp':
      return picture.webp({ quality: 80 })
  }
}

let loading: Promise<typeof import('sharp').default> | null = null

async function load() {
  loading ??= import('sharp').then(({ default: sharp }) => {
    // Pictures are rare here: no memory is kept for the next one, no thread for each core.
    sharp.cache(false)
    sharp.concurrency(1)
    return sharp
  })
  return loading
}
