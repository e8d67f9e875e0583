/** The daemon as a process: one per home, found where it belongs, ended in order or not. Runs the built program. */
import { type ChildProcess, spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { maxSocketPath, resolvePlaces } from '../../protocol/places.ts'
import { programFile } from '../../protocol/programs.ts'
import { VERSION } from '../../protocol/version.ts'
import { answers, startDaemon, writtenPid } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { alive, endProcessesOf, gone, signal } from '../support/processes.ts'
import { until, within } from '../support/until.ts'
import { TestClient } from './harness.ts'

interface Ended {
  readonly code: number | null
  readonly stderr: string
}

/** Starts the program without waiting for it to answer. */
function launch(home: TestHome, variables: Record<string, string> = {}) {
  const child: ChildProcess = spawn(process.execPath, [programFile('daemon')], {
    env: { ...home.env, ...variables },
    cwd: home.work,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let stderr = ''
  child.stderr?.on('data', (piece: Buffer) => {
    stderr += piece.toString()
  })
  const ended = new Promise<Ended>((resolve) => child.once('close', (code) => resolve({ code, stderr })))
  return {
    pid: child.pid ?? 0,
    child,
    ended: () => within('the daemon process to end', ended),
    stderr: () => stderr,
  }
}

const written = (home: TestHome) => JSON.parse(readFileSync(home.places.daemonJson, 'utf8'))

describe('a daemon', () => {
  test('answers at a socket of its owner alone, and tells of itself once it does', () =>
    withHome(async (home) => {
      const daemon = await startDaemon(home)
      await daemon.output.stderr.next(/ready: pid \d+/)
      const client = await TestClient.connect(home.places.socket)
      expect(statSync(home.places.socket).mode & 0o777).toBe(0o600)
      expect(statSync(dirname(home.places.socket)).mode & 0o777).toBe(0o700)
      expect(written(home)).toEqual({
        pid: daemon.pid,
        boot_id: client.welcome.boot_id,
        version: VERSION,
        socket: home.places.socket,
        http: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
        http_port: expect.any(Number),
        started_at: client.welcome.started_at,
      })
      expect((await client.request(0, 'status')).value).toMatchObject({
        running: true,
        pid: daemon.pid,
        boot_id: client.welcome.boot_id,
        connections: 1,
        peers: 0,
      })
      client.wire.destroy()
    }))

  test('stops on SIGTERM: exit 0, nothing left but the lock file, and the next one starts', () =>
    withHome(async (home) => {
      const first = await startDaemon(home)
      const client = await TestClient.connect(home.places.socket)
      await first.stop()
      expect(await first.exited).toEqual({ code: 0, signal: null })
      await client.ended()
      expect(existsSync(home.places.socket)).toBe(false)
      expect(existsSync(home.places.daemonJson)).toBe(false)
      expect(existsSync(home.places.lock)).toBe(true)
      await startDaemon(home)
    }))

  test('stops when a client asks by its boot id: the answer comes first', () =>
    withHome(async (home) => {
      const daemon = await startDaemon(home)
      const client = await TestClient.connect(home.places.socket)
      const { boot_id } = client.welcome
      expect(await client.request(0, 'shutdown', { boot_id: 'other' })).toMatchObject({ ok: false })
      expect(await client.request(0, 'shutdown', { boot_id })).toMatchObject({ ok: true })
      expect(await daemon.exited).toEqual({ code: 0, signal: null })
    }))

  test('that was killed leaves a socket and a file that the next one replaces', () =>
    withHome(async (home) => {
      const first = await startDaemon(home)
      const before = written(home).boot_id
      await first.kill9()
      expect(existsSync(home.places.socket)).toBe(true)
      const second = await startDaemon(home)
      expect(writtenPid(home)).toBe(second.pid)
      expect(written(home).boot_id).not.toBe(before)
    }))

  test('outlives the terminal and the pipes of whoever started it, and holds no folder', () =>
    withHome(async (home) => {
      const daemon = launch(home)
      await until('it to answer', () => answers(home.places.socket))
      daemon.child.stderr?.destroy()
      signal(daemon.pid, 'SIGHUP')
      // The refusal of a second daemon and all later lines go to pipes that nobody reads.
      const client = await TestClient.connect(home.places.socket)
      expect((await client.request(0, 'status')).ok).toBe(true)
      if (process.platform === 'linux') expect(readlinkSync(`/proc/${daemon.pid}/cwd`)).toBe('/')
      client.wire.destroy()
      signal(daemon.pid, 'SIGTERM')
      await gone(daemon.pid)
    }))
})

describe('one daemon for one home', () => {
  test('a second one finds the first, says so in one line and exits 0', () =>
    withHome(async (home) => {
      const first = await startDaemon(home)
      const second = await launch(home).ended()
      expect(second).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/^roomd daemon: .*pid \d+.*\n$/),
      })
      expect(second.stderr).toContain(`pid ${first.pid}`)
      expect(await answers(home.places.socket)).toBe(true)
      expect(writtenPid(home)).toBe(first.pid)
    }))

  test('of several started at once one serves, and the others exit 0', () =>
    withHome(async (home) => {
      const all = Array.from({ length: 4 }, () => launch(home))
      await until('one to answer', () => answers(home.places.socket))
      const winner = await until('it to tell its pid', () => writtenPid(home))
      const others = await Promise.all(all.filter((one) => one.pid !== winner).map((one) => one.ended()))
      expect(others.map((one) => one.code)).toEqual([0, 0, 0])
      expect(alive(winner)).toBe(true)
    }))

  test('one that is started while another leaves waits for its turn', () =>
    withHome(async (home) => {
      const first = await startDaemon(home)
      const client = await TestClient.connect(home.places.socket)
      const { boot_id } = client.welcome
      client.ask(0, 'shutdown', { boot_id, reason: 'restart' })
      const second = launch(home)
      await gone(first.pid)
      await until('the second to serve', () => writtenPid(home) === second.pid)
      expect(await answers(home.places.socket)).toBe(true)
    }))

  test('a home with a second name is one home', () =>
    withHome(async (home) => {
      const first = await startDaemon(home)
      symlinkSync(home.path, join(home.work, 'other-name'))
      const second = await launch(home, { ROOMD_HOME: join(home.work, 'other-name') }).ended()
      expect(second).toMatchObject({ code: 0, stderr: expect.stringContaining(`pid ${first.pid}`) })
    }))
})

describe('a daemon does not start, says why and what to do, and exits 1', () => {
  test('when a file that is no socket is where it listens', () =>
    withHome(async (home) => {
      mkdirSync(dirname(home.places.socket), { mode: 0o700 })
      writeFileSync(home.places.socket, 'precious')
      const { code, stderr } = await launch(home).ended()
      expect(code).toBe(1)
      expect(stderr).toMatch(/^roomd daemon: cannot listen on .*roomd\.sock.*ROOMD_SOCKET\n$/)
      expect(readFileSync(home.places.socket, 'utf8')).toBe('precious')
      expect(existsSync(home.places.daemonJson)).toBe(false)
      rmSync(home.places.socket)
      await startDaemon(home)
    }))

  test('when others can write to its runtime folder', () =>
    withHome(async (home) => {
      mkdirSync(home.places.runtime)
      chmodSync(home.places.runtime, 0o777)
      const { code, stderr } = await launch(home).ended()
      expect(code).toBe(1)
      expect(stderr).toMatch(/^roomd daemon: will not use .*run: others can write to it.*chmod 700.*\n$/)
    }))

  test('when its store was written by a newer version, which it leaves alone', () =>
    withHome(async (home) => {
      await (await startDaemon(home)).stop()
      const file = join(home.places.data, 'roomd.db')
      const database = new Database(file)
      database.pragma('user_version = 9999')
      database.close()
      const { code, stderr } = await launch(home).ended()
      expect(code).toBe(1)
      expect(stderr).toMatch(/newer roomd/)
      expect(existsSync(home.places.daemonJson)).toBe(false)
    }))

  test('when the log level is none (exit 2: a mistake in how it was called)', () =>
    withHome(async (home) => {
      const { code, stderr } = await launch(home, { ROOMD_LOG_LEVEL: 'loud' }).ended()
      expect(code).toBe(2)
      expect(stderr).toMatch(/ROOMD_LOG_LEVEL is "loud"; use one of trace, /)
    }))
})

test('a home whose path does not fit a socket address has its socket elsewhere, and lives there as any other', () =>
  withHome(async (short) => {
    const runtime = join(short.path, 'r')
    mkdirSync(runtime, { mode: 0o700 })
    const path = join(short.path, 'a'.repeat(70), 'b'.repeat(70))
    mkdirSync(path, { recursive: true })
    const env = { ...short.env, ROOMD_HOME: path, XDG_RUNTIME_DIR: runtime }
    const home: TestHome = { ...short, path, env, places: resolvePlaces(env) }
    expect(Buffer.byteLength(home.places.socket)).toBeLessThanOrEqual(maxSocketPath())
    expect(dirname(dirname(home.places.socket))).toBe(runtime)
    try {
      const first = await startDaemon(home)
      expect(statSync(home.places.socket).mode & 0o777).toBe(0o600)
      expect((await launch(home).ended()).stderr).toContain(`pid ${first.pid}`)
      await first.kill9()
      const second = await startDaemon(home)
      await second.stop()
      expect(existsSync(home.places.socket)).toBe(false)
    } finally {
      await endProcessesOf(path)
    }
  }))
