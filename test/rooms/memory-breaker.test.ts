import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { oomKillsRose, readOomKills } from '../../daemon/kernel-host/out-of-memory.ts'
import { breakerOpen, type MemoryDeaths, withDeath } from '../../daemon/rooms/memory-breaker.ts'

const after = (...times: number[]) =>
  times.reduce<MemoryDeaths | null>((before, at) => withDeath(before, at, `death at ${at}`), null)

test('three deaths within 300 seconds trip it, three that are further apart do not', () => {
  expect(after(0, 150_000)?.tripped).toBe(false)
  expect(after(0, 150_000, 300_000)?.tripped).toBe(true)
  expect(after(0, 150_000, 300_001)?.tripped).toBe(false)
  expect(after(0, 150_000, 300_001, 449_000)?.tripped).toBe(true)
})

test('it stays tripped however late the next death is, and tells of the last', () => {
  const deaths = after(0, 1, 2, 10_000_000)
  expect(deaths).toMatchObject({ tripped: true, last: 'death at 10000000' })
  expect(deaths && breakerOpen(deaths).message).toContain('death at 10000000')
})

/** A root folder in which process 7 belongs to these groups, and in which these counters stand at `kills`. */
function system(groups: string, counters: string[]): { root: string; kills: (count: number) => void } {
  const root = mkdtempSync(join(tmpdir(), 'roomd-oom-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const put = (path: string, text: string): void => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  put('proc/7/cgroup', groups)
  const kills = (count: number): void => {
    for (const path of counters) put(path, `low 0\noom ${count}\noom_kill ${count}\n`)
  }
  kills(2)
  return { root, kills }
}

test.runIf(process.platform === 'linux').each([
  ['version 2', '0::/user.slice/k.scope\n', ['sys/fs/cgroup/user.slice/k.scope/memory.events']],
  ['version 1', '4:cpu,memory:/k\n0::/\n', ['sys/fs/cgroup/memory/k/memory.oom_control']],
  ['no controller', '0::/\n', ['proc/vmstat']],
])('a kill is counted where the process was: %s', (_what, groups, counters) => {
  const { root, kills } = system(groups, counters)
  const before = readOomKills(7, root)
  expect(oomKillsRose(before)).toBe(false)
  // The process is gone when it matters.
  rmSync(join(root, 'proc', '7'), { recursive: true })
  kills(3)
  expect(oomKillsRose(before)).toBe(true)
})

test.runIf(process.platform === 'linux')('kills elsewhere are not taken for its own', () => {
  const { root } = system('0::/k\n', ['sys/fs/cgroup/k/memory.events', 'proc/vmstat'])
  const before = readOomKills(7, root)
  writeFileSync(join(root, 'proc', 'vmstat'), 'oom_kill 9\n')
  expect(oomKillsRose(before)).toBe(false)
})
