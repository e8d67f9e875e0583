import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Blobs, openBlobs } from '../../daemon/executions/blobs.ts'
import { readValue, storeBundle } from '../../daemon/executions/values.ts'
import type { BlobHash } from '../../protocol/ids.ts'

let folder: string
let blobs: Blobs

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-blobs-'))
  blobs = openBlobs(folder)
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

describe('blob files', () => {
  test('are named by their bytes and are there once the name is known', async () => {
    const bytes = Buffer.from('some bytes')
    const ref = await blobs.put(bytes)
    expect(ref).toEqual({ blob: createHash('sha256').update(bytes).digest('hex'), size: 10 })
    expect(statSync(blobs.file(ref.blob)).mode & 0o777).toBe(0o600)
    expect(Buffer.from(await blobs.read(ref.blob)).equals(bytes)).toBe(true)
  })

  test('small and large ones have the same kind of name', async () => {
    const bytes = Buffer.alloc(300_000, 1)
    const ref = await blobs.put(bytes)
    expect(ref.blob).toBe(createHash('sha256').update(bytes).digest('hex'))
  })

  test('the same bytes at once are one file and leave nothing beside it', async () => {
    const refs = await Promise.all(Array.from({ length: 20 }, () => blobs.put(Buffer.from('same'))))
    expect(new Set(refs.map((ref) => ref.blob)).size).toBe(1)
    const [ref] = refs
    expect(readdirSync(folder)).toEqual([ref?.blob])
  })

  test('a file cut short by a crash of the machine is written again', async () => {
    const bytes = Buffer.from('whole')
    const hash = createHash('sha256').update(bytes).digest('hex') as BlobHash
    writeFileSync(blobs.file(hash), 'who')
    await blobs.put(bytes)
    expect(Buffer.from(await blobs.read(hash)).toString()).toBe('whole')
  })

  test('a missing one is not_found', async () => {
    await expect(blobs.read('0'.repeat(64) as BlobHash)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('a folder that cannot be written is said as a storage error, and works again afterwards', async () => {
    const bytes = Buffer.from('x')
    const hash = createHash('sha256').update(bytes).digest('hex') as BlobHash
    rmSync(folder, { recursive: true })
    await expect(blobs.put(bytes)).rejects.toMatchObject({ code: 'storage_failed' })
    mkdirSync(folder)
    expect(await blobs.put(bytes)).toEqual({ blob: hash, size: 1 })
  })

  test('collecting removes what is old and not named, also what a killed writer left', async () => {
    const old = await blobs.put(Buffer.from('old'))
    const named = await blobs.put(Buffer.from('named'))
    const young = await blobs.put(Buffer.from('young'))
    const left = `${blobs.file(old.blob)}.left.part`
    writeFileSync(left, 'half')
    const long = new Date(Date.now() - 10 * 3_600_000)
    for (const path of [blobs.file(old.blob), blobs.file(named.blob), left]) utimesSync(path, long, long)
    // Another process's life: this one put nothing.
    const later = openBlobs(folder)
    const result = await later.collect(new Set([named.blob]), Date.now() - 3_600_000)
    expect(result.removed).toBe(2)
    expect([old, named, young].map((ref) => existsSync(later.file(ref.blob)))).toEqual([false, true, true])
    // What was collected is written again when it comes again.
    await later.put(Buffer.from('old'))
    expect(existsSync(later.file(old.blob))).toBe(true)
  })
})

describe('values come back as they were', () => {
  const long = 'z'.repeat(10_000)
  test.each<[string, unknown]>([
    ['text/plain', long],
    ['text/html', `<b>${'ö'.repeat(5_000)}</b>`],
    ['image/svg+xml', `<svg>${long}</svg>`],
    ['image/png', Buffer.alloc(9_000, 3).toString('base64')],
    ['image/png', `this is no base64 ${long}`],
    ['application/json', { a: [long, 1, null] }],
    ['application/json', long],
    ['application/vnd.plotly.v1+json', { data: Array.from({ length: 5_000 }, (_, i) => i) }],
    ['application/x-odd', { an: 'object', long }],
    ['application/json', { blob: 'a'.repeat(64), size: 1 }],
    ['text/plain', 'short'],
  ])('%s', async (mime, value) => {
    const stored = await storeBundle({ [mime]: value }, blobs)
    expect(await readValue(mime, stored[mime], blobs)).toEqual(value)
    if (JSON.stringify(value).length > 9_000) expect(stored[mime]).toHaveProperty('blob')
  })

  test('line breaks inside base64 are not kept; its bytes are', async () => {
    const bytes = Buffer.alloc(9_000, 3)
    const broken = bytes.toString('base64').replace(/.{76}/g, '$&\n')
    const stored = await storeBundle({ 'image/png': broken }, blobs)
    expect(await readValue('image/png', stored['image/png'], blobs)).toBe(bytes.toString('base64'))
  })
})
