import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { FrameType } from '../../protocol/frames.ts'
import { dial } from '../../protocol/wire/dial.ts'
import { createWire } from '../../protocol/wire/endpoint.ts'
import { socketTransport } from '../../protocol/wire/socket-transport.ts'
import { until } from '../support/until.ts'
import { pattern } from './frames.ts'

const folder = mkdtempSync(join(tmpdir(), 'roomd-socket-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a socket whose other side does not read', () => {
  it('takes about a frame ahead, lets control frames pass the rest, and goes on when it is read', async () => {
    const path = join(folder, 's')
    let reader: Socket | undefined
    const server = createServer({ pauseOnConnect: true }, (socket) => {
      reader = socket
    })
    await new Promise<void>((resolve) => server.listen(path, resolve))
    const wire = createWire({
      transport: socketTransport(await dial(path)),
      side: 'client',
      handlers: { value: () => {}, closed: () => {} },
    })
    const size = 20_000_000
    wire.send(FrameType.BLOB, 0, pattern(size))
    await until('the socket is full', () => wire.queued() < size)
    wire.send(FrameType.CANCEL, 0, pattern(10))
    await new Promise((resolve) => setImmediate(resolve))
    expect(wire.queued()).toBeGreaterThan(size - 2_000_000)
    const other = await until('the other side', () => reader)
    let bytes = Buffer.alloc(0)
    const chunks: Buffer[] = []
    other.on('data', (chunk: Buffer) => chunks.push(chunk))
    other.resume()
    const expected = size + 20 + 10 * Math.ceil(size / 262_144)
    await until('all of it', () => chunks.reduce((sum, chunk) => sum + chunk.length, 0) === expected)
    bytes = Buffer.concat(chunks)
    const types: number[] = []
    for (let at = 0; at < bytes.length; at += 10 + bytes.readUInt32BE(at)) types.push(bytes.readUInt8(at + 4))
    expect(types.indexOf(FrameType.CANCEL)).toBeLessThan(6)
    expect(types.filter((type) => type === FrameType.BLOB)).toHaveLength(Math.ceil(size / 262_144))
    wire.destroy()
    other.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
})
