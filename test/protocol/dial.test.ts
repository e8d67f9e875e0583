import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { dial } from '../../protocol/wire/dial.ts'

const folder = mkdtempSync(join(tmpdir(), 'roomd-dial-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('dialling a Unix socket', () => {
  it('gets through a backlog that is full', async () => {
    const path = join(folder, 'busy')
    const server = createServer((socket) => socket.end())
    await new Promise<void>((resolve) => server.listen({ path, backlog: 1 }, resolve))
    const sockets = await Promise.all(Array.from({ length: 50 }, () => dial(path)))
    expect(sockets).toHaveLength(50)
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })

  it('names a socket that is not there, and stops when asked to', async () => {
    await expect(dial(join(folder, 'nobody'))).rejects.toMatchObject({ code: 'ENOENT' })
    const reason = new Error('not wanted any more')
    await expect(dial(join(folder, 'nobody'), AbortSignal.abort(reason))).rejects.toBe(reason)
    const aborting = new AbortController()
    const dialled = dial(join(folder, 'nobody'), aborting.signal)
    aborting.abort(reason)
    await expect(dialled).rejects.toBe(reason)
  })
})
