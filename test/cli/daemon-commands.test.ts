import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type CommandResult, roomd } from '../support/command.ts'
import { startDaemon, writtenPid } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { alive, gone, processesOf, signal } from '../support/processes.ts'

function json(result: CommandResult): Record<string, unknown> {
  return JSON.parse(result.stdout) as Record<string, unknown>
}

async function startedPid(home: TestHome): Promise<number> {
  const started = await roomd(home, ['start', '--json'])
  expect(started.stderr).toBe('')
  expect(started.code).toBe(0)
  return json(started).pid as number
}

test('status tells that none runs with exit 69, and starts none', () =>
  withHome(async (home) => {
    const status = await roomd(home, ['status', '--json'], { env: { ROOMD_NO_AUTOSTART: '' } })
    expect(status.code).toBe(69)
    expect(json(status)).toMatchObject({ running: false, socket: home.places.socket })
    const plain = await roomd(home, ['status'])
    expect(plain.code).toBe(69)
    expect(plain.stdout).toContain('roomd start')
    expect(processesOf(home.path)).toEqual([])
  }))

test('start returns when the daemon answers, in a session of its own; a second start finds it', () =>
  withHome(async (home) => {
    const first = await roomd(home, ['start', '--json'])
    expect(first.code).toBe(0)
    const { pid, boot_id } = json(first) as { pid: number; boot_id: string }
    expect(json(first)).toMatchObject({ running: true, started: true, socket: home.places.socket })
    if (process.platform === 'linux') {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')
      expect(fields?.[3]).toBe(String(pid))
    }
    const second = await roomd(home, ['start', '--json'])
    expect(json(second)).toMatchObject({ started: false, pid, boot_id })
    const status = await roomd(home, ['status', '--json'])
    expect(status.code).toBe(0)
    expect(json(status)).toMatchObject({ running: true, pid, boot_id, rooms: 0, kernels: 0 })
    expect(Object.keys(json(status)).sort()).toEqual(
      [
        'running',
        'pid',
        'boot_id',
        'version',
        'uptime_s',
        'socket',
        'http',
        'rooms',
        'peers',
        'kernels',
        'connections',
        'journal',
        'memory',
      ].sort(),
    )
  }))

test('twenty starts at once in an empty home make one daemon', () =>
  withHome(async (home) => {
    const results = await Promise.all(Array.from({ length: 20 }, () => roomd(home, ['start', '--json'])))
    for (const result of results) expect([result.code, result.stderr]).toEqual([0, ''])
    expect(new Set(results.map((result) => json(result).boot_id)).size).toBe(1)
    expect(writtenPid(home)).toBe(json(results[0] as CommandResult).pid)
  }))

test('stop waits until the process is gone, and nothing starts it again but start', () =>
  withHome(
    async (home) => {
      const pid = await startedPid(home)
      const stopped = await roomd(home, ['stop', '--json'])
      expect(stopped.code).toBe(0)
      expect(json(stopped)).toMatchObject({ was_running: true, pid, rooms: 0, kernels_kept: 0 })
      expect(alive(pid)).toBe(false)
      const refused = await roomd(home, ['ps', '--json'])
      expect(refused.code).toBe(69)
      expect(json(refused)).toMatchObject({ error: { code: 'daemon_lost' } })
      expect(refused.stderr).toContain('roomd start')
      const again = await roomd(home, ['stop', '--json'])
      expect([again.code, json(again)]).toEqual([0, { was_running: false }])
      await startedPid(home)
      expect(existsSync(home.places.stopped)).toBe(false)
    },
    { ROOMD_NO_AUTOSTART: '' },
  ))

test('a command that needs a daemon starts one, unless ROOMD_NO_AUTOSTART is set', () =>
  withHome(async (home) => {
    const refused = await roomd(home, ['ps'])
    expect(refused.code).toBe(69)
    expect(refused.stderr).toContain('ROOMD_NO_AUTOSTART')
    const rooms = await roomd(home, ['ps', '--json'], { env: { ROOMD_NO_AUTOSTART: '' } })
    expect(rooms.stderr).toBe('')
    expect([rooms.code, json(rooms)]).toEqual([0, { rooms: [] }])
  }))

test('restart gives another incarnation of the same home', () =>
  withHome(async (home) => {
    const pid = await startedPid(home)
    const restarted = await roomd(home, ['restart', '--json'])
    expect(restarted.code).toBe(0)
    expect(json(restarted)).toMatchObject({ running: true, previous_pid: pid })
    expect(json(restarted).pid).not.toBe(pid)
    expect(existsSync(home.places.stopped)).toBe(false)
  }))

test('a daemon that is stopped by a signal is left alone, and said to be', () =>
  withHome(async (home) => {
    const daemon = await startDaemon(home)
    signal(daemon.pid, 'SIGSTOP')
    try {
      const [status, stop] = await Promise.all([roomd(home, ['status', '--json']), roomd(home, ['stop'])])
      expect(status.code).toBe(69)
      expect(json(status)).toMatchObject({ running: false, pid: daemon.pid })
      expect(stop.code).toBe(69)
      expect(stop.stderr).toContain(`kill -CONT ${daemon.pid}`)
      expect(alive(daemon.pid)).toBe(true)
    } finally {
      signal(daemon.pid, 'SIGCONT')
    }
    expect((await roomd(home, ['stop'])).code).toBe(0)
    await gone(daemon.pid)
  }))

test('a start that fails says so with the end of the log', () =>
  withHome(async (home) => {
    const failed = await roomd(home, ['start'], { env: { ROOMD_LOG_LEVEL: 'no-such-level' } })
    expect(failed.code).toBe(69)
    expect(failed.stderr).toContain('no-such-level')
    expect(failed.stderr).toContain(join(home.places.logs, 'daemon.out'))
  }))

test('logs shows what the daemon wrote, and names the way when there is none', () =>
  withHome(async (home) => {
    const none = await roomd(home, ['logs'])
    expect(none.code).toBe(1)
    expect(none.stderr).toContain('roomd start')
    await startedPid(home)
    const logs = await roomd(home, ['logs', '-n', '200'])
    expect(logs.code).toBe(0)
    expect(logs.stdout).toMatch(/INFO {2}listening/)
  }))

test('usage errors end with 2 and say what is wrong', () =>
  withHome(async (home) => {
    const unknown = await roomd(home, ['dance'])
    expect(unknown.code).toBe(2)
    expect(unknown.stderr).toContain('dance')
    const missing = await roomd(home, ['exec', '--json', 'room'])
    expect(missing.code).toBe(2)
    expect(json(missing)).toMatchObject({ error: { code: 'usage' } })
    expect((await roomd(home, ['run', 'x.ipynb', '--timeout', 'soon'])).code).toBe(2)
    expect((await roomd(home, ['--help'])).code).toBe(0)
  }))
