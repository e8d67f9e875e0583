/** Real pictures, whole and broken, as a model gets them. */
import { randomBytes } from 'node:crypto'
import sharp, { type Sharp } from 'sharp'
import { expect, test } from 'vitest'
import { drawSvg, PICTURE_BYTES, type Picture, showPicture } from '../../client/mcp/results/pictures.ts'

function plain(width: number, height: number): Sharp {
  return sharp({ create: { width, height, channels: 3, background: '#336699' } })
}

/** Noise: no format makes it small. */
function noise(width: number, height: number, channels: 3 | 4 = 3): Sharp {
  return sharp(randomBytes(width * height * channels), { raw: { width, height, channels } })
}

async function must(picture: Picture) {
  if (picture.kind === 'refused') throw new Error(picture.why)
  expect(picture.bytes.length).toBeLessThanOrEqual(PICTURE_BYTES)
  const { width, height, format } = await sharp(picture.bytes).metadata()
  expect(`image/${format}`).toBe(picture.mime)
  return { ...picture, width: width ?? 0, height: height ?? 0 }
}

function why(picture: Picture): string {
  return picture.kind === 'refused' ? picture.why : `shown: ${picture.change}`
}

test('a picture that fits is passed on byte for byte, in all four formats', async () => {
  const source = plain(300, 200)
  for (const [mime, bytes] of [
    ['image/png', await source.png().toBuffer()],
    ['image/jpeg', await source.jpeg().toBuffer()],
    ['image/jpeg', await source.jpeg({ progressive: true }).toBuffer()],
    ['image/gif', await source.gif().toBuffer()],
    ['image/webp', await source.webp().toBuffer()],
    ['image/webp', await source.webp({ lossless: true }).toBuffer()],
    ['image/webp', await noise(300, 200, 4).webp().toBuffer()],
  ] as const) {
    const shown = await must(await showPicture(bytes, mime))
    expect(shown.bytes.equals(bytes)).toBe(true)
    expect([shown.mime, shown.change, shown.width, shown.height]).toEqual([mime, null, 300, 200])
  }
})

test('one that is too large is scaled below 1 MiB, with its proportions, and says so', async () => {
  const png = await noise(1000, 750).png().toBuffer()
  const shown = await must(await showPicture(png, 'image/png'))
  expect(shown.change).toBe(
    `1000x750, ${(png.length / 1024 / 1024).toFixed(1)} MiB, shown as ${shown.width}x${shown.height} ${shown.mime.slice(6)}`,
  )
  expect(shown.width / shown.height).toBeCloseTo(4 / 3, 1)
  expect(shown.width).toBeGreaterThan(300)
  const jpeg = await noise(1500, 1000).jpeg({ quality: 95 }).toBuffer()
  expect((await must(await showPicture(jpeg, 'image/jpeg'))).mime).toBe('image/jpeg')
  const webp = await noise(650, 650).webp({ lossless: true }).toBuffer()
  expect((await must(await showPicture(webp, 'image/webp'))).change).toContain('its first frame')
})

test('few bytes with long sides are scaled too; transparency stays', async () => {
  const wide = await plain(12_000, 40).png().toBuffer()
  const shown = await must(await showPicture(wide, 'image/png'))
  expect(shown.width).toBe(1568)
  const clear = await noise(600, 600, 4).png().toBuffer()
  const scaled = await must(await showPicture(clear, 'image/png'))
  expect((await sharp(scaled.bytes).metadata()).hasAlpha).toBe(true)
})

test('a picture that a camera turned is shown upright', async () => {
  const turned = await noise(1600, 800).jpeg({ quality: 95 }).withMetadata({ orientation: 6 }).toBuffer()
  const { width, height } = await must(await showPicture(turned, 'image/jpeg'))
  expect(height).toBeGreaterThan(width)
})

test('what is broken, cut off or something else is refused with why, small or large', async () => {
  const png = await noise(100, 100).png().toBuffer()
  const large = await noise(700, 700).png().toBuffer()
  const jpeg = await noise(100, 100).jpeg().toBuffer()
  const holes = Buffer.from(large)
  holes.fill(0, 5_000, holes.length - 100)
  expect(why(await showPicture(png.subarray(0, 2_000), 'image/png'))).toContain(
    'it is no image/png, or not all',
  )
  expect(why(await showPicture(jpeg.subarray(0, 2_000), 'image/jpeg'))).toContain('or not all')
  expect(why(await showPicture(png, 'image/jpeg'))).toContain('it is no image/jpeg')
  expect(why(await showPicture(Buffer.from('<html>'), 'image/gif'))).toContain('it is no image/gif')
  expect(why(await showPicture(Buffer.alloc(0), 'image/webp'))).toContain('it is no image/webp')
  expect(why(await showPicture(holes, 'image/png'))).toContain('it could not be read: ')
})

test('a small file that claims to be enormous is not unpacked', async () => {
  const bomb = await plain(64, 64).png().toBuffer()
  bomb.writeUInt32BE(60_000, 16)
  bomb.writeUInt32BE(60_000, 20)
  expect(why(await showPicture(bomb, 'image/png'))).toBe(
    'its 60,000x60,000 pixels are more than the 64,000,000 that are read',
  )
  // The header names one size, what lies inside another.
  const lying = await plain(4_000, 4_000).png({ compressionLevel: 9 }).toBuffer()
  lying.writeUInt32BE(9_000, 16)
  expect(why(await showPicture(lying, 'image/png'))).toContain('it could not be read')
})

test('an SVG is drawn on white; nothing outside is loaded; what cannot be drawn is refused', async () => {
  const svg = (size: string, inside: string) =>
    `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ${size}>${inside}</svg>`
  const drawn = await must(
    await drawSvg(svg('width="200" height="100"', '<rect width="10" height="10" fill="red"/>')),
  )
  expect([drawn.width, drawn.height, drawn.mime, drawn.change]).toEqual([
    400,
    200,
    'image/png',
    'an SVG, drawn',
  ])
  const corner = await sharp(drawn.bytes)
    .extract({ left: 390, top: 190, width: 1, height: 1 })
    .raw()
    .toBuffer()
  expect([...corner.subarray(0, 3)]).toEqual([255, 255, 255])

  const outside = svg(
    'width="20" height="20"',
    '<image width="20" height="20" xlink:href="file:///etc/hostname"/>',
  )
  const pixels = await sharp((await must(await drawSvg(outside))).bytes)
    .flatten({ background: '#fff' })
    .raw()
    .toBuffer()
  expect(new Set(pixels)).toEqual(new Set([255]))

  expect(why(await drawSvg(svg('width="200000" height="200000"', '')))).toContain('pixel limit')
  expect(why(await drawSvg('<svg xmlns="http://www.w3.org/2000/svg"><rect'))).toContain(
    'it could not be read',
  )
  expect(why(await drawSvg('no svg'))).toContain('it could not be read')
  expect(why(await drawSvg('x'.repeat(9 * 1024 * 1024)))).toContain('is not drawn')
})

test('pictures that are asked for at once all come', async () => {
  const png = await noise(650, 650).png().toBuffer()
  const shown = await Promise.all(Array.from({ length: 4 }, () => showPicture(png, 'image/png')))
  for (const picture of shown) await must(picture)
})
