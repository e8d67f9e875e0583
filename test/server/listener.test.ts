import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Listener, listenUnix } from '../../daemon/server/listener.ts'

let folder: string
let path: string
let listener: Listener | undefined
const accepted: Socket[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-listen-'))
  path = join(folder, 's')
})
afterEach(async () => {
  await listener?.close()
  listener = undefined
  for (const socket of accepted.splice(0)) socket.destroy()
  rmSync(folder, { recursive: true, force: true })
})
const listen = async () => {
  listener = await listenUnix(path, (socket) => accepted.push(socket))
}
const connected = () =>
  new Promise<Socket>((resolve, reject) => {
    const socket = connect(path, () => resolve(socket))
    socket.once('error', reject)
  })

test('the socket is the owner’s alone, whatever the umask, which stays as it was', async () => {
  const before = process.umask(0)
  try {
    await listen()
    expect(statSync(path).mode & 0o7777).toBe(0o600)
    expect(process.umask(0)).toBe(0)
  } finally {
    process.umask(before)
  }
})

test('a socket that a killed process left is replaced', async () => {
  const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  spawnSync(process.execPath, ['-e', script])
  expect(statSync(path).isSocket()).toBe(true)
  await listen()
  const socket = await connected()
  socket.destroy()
})

test('a file that is no socket is refused and left alone', async () => {
  writeFileSync(path, 'precious')
  await expect(listen()).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining(path) })
  expect(readFileSync(path, 'utf8')).toBe('precious')
  rmSync(path)
  mkdirSync(path)
  await expect(listen()).rejects.toMatchObject({ code: 'conflict' })
})

test('a socket at which somebody answers is refused and left alone', async () => {
  const other: Server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => other.listen(path, resolve))
  try {
    await expect(listen()).rejects.toMatchObject({ code: 'conflict' })
    const socket = await connected()
    socket.destroy()
  } finally {
    await new Promise((resolve) => other.close(resolve))
  }
})

test('closing removes the socket file and leaves accepted sockets open', async () => {
  await listen()
  const socket = await connected()
  await listener?.close()
  expect(existsSync(path)).toBe(false)
  const echoed = new Promise<string>((resolve) => socket.once('data', (data) => resolve(data.toString())))
  accepted[0]?.write('still here')
  expect(await echoed).toBe('still here')
  socket.destroy()
})

test('a path that cannot be bound says so', async () => {
  path = join(folder, 'missing', 's')
  await expect(listen()).rejects.toThrow(/cannot listen on .*missing/)
})
