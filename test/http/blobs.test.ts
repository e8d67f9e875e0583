/** /blob/{sha256}: what it is said to be, that it never changes, and that nothing in it can run. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HttpFixture } from './support.ts'

let http: HttpFixture
let digests: Record<string, string>
const bytesOf: Record<string, Buffer> = {
  png: Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(20_000, 7)]),
  html: Buffer.from(`<script>document.title = 'ran'</script>${'é'.repeat(10_000)}`),
  svg: Buffer.from(
    `<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg">${' '.repeat(10_000)}</svg>`,
  ),
  text: Buffer.from('0123456789'.repeat(2_000)),
}

beforeAll(async () => {
  http = await HttpFixture.start()
  const id = await http.room('a.ipynb', ['1'])
  const room = [...http.owner.rooms].find((open) => open.id === id)
  // Outputs of a kernel become blobs when they are large.
  const code = `display({
    'image/png': ${JSON.stringify(bytesOf.png?.toString('base64'))},
    'text/html': ${JSON.stringify(bytesOf.html?.toString())},
    'image/svg+xml': ${JSON.stringify(bytesOf.svg?.toString())},
    'text/markdown': ${JSON.stringify(bytesOf.text?.toString())},
  }, { raw: true })`
  const run = await room?.execute({ code })
  const result = await run?.done
  expect(result?.status).toBe('done')
  digests = Object.fromEntries(
    Object.entries(bytesOf).map(([name, bytes]) => [name, createHash('sha256').update(bytes).digest('hex')]),
  )
})
afterAll(() => http.dispose())

test.each([
  ['png', 'image/png'],
  ['html', 'text/plain; charset=utf-8'],
  ['svg', 'image/svg+xml; charset=utf-8'],
  ['text', 'text/plain; charset=utf-8'],
])('%s comes as %s, whole, for ever, and in a sandbox', async (name, type) => {
  const { status, headers, body } = await http.getAsOwner(`/blob/${digests[name]}`)
  expect(status).toBe(200)
  expect(body.equals(bytesOf[name] ?? Buffer.alloc(0))).toBe(true)
  expect(headers['content-type']).toBe(type)
  expect(headers['cache-control']).toContain('immutable')
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(headers['content-security-policy']).toMatch(/^sandbox; default-src 'none'/)
  expect(headers['cross-origin-resource-policy']).toBe('same-origin')
})

test('whoever has the output says its type, and no header can be smuggled in', async () => {
  const { headers } = await http.getAsOwner(`/blob/${digests.html}?type=text/html`)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers['content-security-policy']).not.toContain('allow-scripts')
  for (const type of ['text/html%0d%0aX:%201', 'html', '', 'a/b;c', 'a/b;c=%22%0a%22'])
    expect((await http.getAsOwner(`/blob/${digests.html}?type=${type}`)).status).toBe(400)
})

test('a part of it, what is known already, and its head', async () => {
  const path = `/blob/${digests.text}`
  const part = await http.getAsOwner(path, { range: 'bytes=10-14' })
  expect([part.status, part.text, part.headers['content-range']]).toEqual([206, '01234', 'bytes 10-14/20000'])
  expect((await http.getAsOwner(path, { range: 'bytes=-3' })).text).toBe('789')
  expect((await http.getAsOwner(path, { range: 'bytes=19998-' })).text).toBe('89')
  expect((await http.getAsOwner(path, { range: 'bytes=20000-' })).status).toBe(416)
  for (const range of ['bytes=0-1,3-4', 'lines=1-2', 'bytes=5-2'])
    expect((await http.getAsOwner(path, { range })).status).toBe(200)
  const etag = `"${digests.text}"`
  const known = await http.getAsOwner(path, { 'if-none-match': `W/"x", ${etag}` })
  expect([known.status, known.body.length]).toEqual([304, 0])
  const head = await http.getAsOwner(path, {}, 'HEAD')
  expect([head.status, head.body.length, head.headers['content-length']]).toEqual([200, 0, '20000'])
})

test('one that is not there is 404', async () => {
  expect((await http.getAsOwner(`/blob/${'0'.repeat(64)}`)).status).toBe(404)
})
