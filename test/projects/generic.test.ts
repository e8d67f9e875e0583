/** Kernels kept ready for any new notebook: who gets one, who does not, and that none is left over. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test as one } from 'vitest'
import { SETTLE_MS, USED_MS } from '../../daemon/projects/generic.ts'
import type { ProjectsOptions } from '../../daemon/projects/projects.ts'
import type { Room } from '../../daemon/rooms/room.ts'

import { needs } from '../support/machine.ts'
import { alive } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type Bench, withProjects } from './fixture.ts'

/** Each has a home of its own, and waits for processes most of the time: they run side by side. */
const test = one.concurrent

const generic: Partial<ProjectsOptions> = { settings: { generic: true, memory: null, enabled: true } }
const withGeneric = (use: (bench: Bench) => Promise<void>) => withProjects(use, generic)

/** Somebody has used this kernel, and the next one waits. */
async function kept(bench: Bench, kernel = 'javascript'): Promise<{ id: string; pid: number }> {
  bench.projects.generic.used(kernel)
  bench.clock.advance(SETTLE_MS)
  const [tier] = await until(
    'a kernel that is kept ready',
    () => {
      const ready = bench.projects.generic.rooms.filter((each) => each.room.record.state === 'pooled')
      return ready.length > 0 && ready
    },
    { timeout: 40_000 },
  )
  // The state is so in memory first.
  await bench.store.settled()
  if (!tier?.pid) throw new Error('the kernel has no pid')
  return { id: tier.id, pid: tier.pid }
}

const scratch = (bench: Bench) => join(bench.home.places.data, 'scratch')
const running = (bench: Bench) => bench.rooms.context.kernels.running().map((kernel) => kernel.summary().pid)

test('a new notebook takes the kernel that waits, told where it is now; the next one is made behind it', () =>
  withGeneric(async (bench) => {
    const ready = await kept(bench)
    expect(bench.projects.hooks.standbys()).toMatchObject([
      { pid: ready.pid, name: 'javascript', state: 'ready' },
    ])
    expect(await listed(bench)).toEqual([])
    const path = join(bench.home.work, 'a.ipynb')
    writeFileSync(join(bench.home.work, 'near.js'), 'module.exports = 7')
    const { room } = await bench.create({ path, kernel: 'javascript' })
    expect(room.id).toBe(ready.id)
    expect(room.record).toMatchObject({ state: 'active', kind: 'in-place', path, title: 'a.ipynb' })
    expect(room.presentKernel?.summary().pid).toBe(ready.pid)
    expect(await listed(bench)).toEqual([room.id])
    expect(bench.projects.hooks.standbys()).toEqual([])
    expect(await bench.run(room, `[process.cwd(), process.env.PWD, require('./near.js')].join()`)).toContain(
      `${bench.home.work},${bench.home.work},7`,
    )
    // Where it had waited is gone, and nothing of the tier holds the room.
    expect(readdirSync(scratch(bench))).toEqual([])
    expect(bench.projects.tier.get(room.id)).toBeUndefined()
    const next = await kept(bench)
    expect(next.pid).not.toBe(ready.pid)
    const { room: standalone } = await bench.create()
    expect(standalone.record.kernel_name).toBeNull()
  }))

test('a Python kernel that waited imports what lies beside the notebook, and counts from 1', async (context) => {
  needs(context, 'Python kernel')
  return withGeneric(async (bench) => {
    const ready = await kept(bench, 'python3')
    writeFileSync(join(bench.home.work, 'beside.py'), 'value = 7\n')
    const { room } = await bench.create({ path: join(bench.home.work, 'a.ipynb'), kernel: 'python3' })
    expect(room.presentKernel?.summary().pid).toBe(ready.pid)
    expect(
      await bench.run(
        room,
        'import os, beside; print(beside.value, os.getcwd(), _dh, In, get_ipython().execution_count)',
      ),
    ).toBe(
      `done 7 ${bench.home.work} ['${bench.home.work}'] ['', 'import os, beside; print(beside.value, os.getcwd(), _dh, In, get_ipython().execution_count)'] 1`,
    )
    expect(await bench.run(room, '[name for name in dir() if name == "_o"]')).toBe('done []')
  })
})

test('another kernel, a kernelspec that has changed, and a folder that is not there: the kernel that waits is not given', () =>
  withGeneric(async (bench) => {
    bench.home.env.JUPYTER_PATH = join(bench.home.path, 'jupyter')
    const spec = join(bench.home.path, 'jupyter', 'kernels', 'other', 'kernel.json')
    mkdirSync(join(spec, '..'), { recursive: true })
    const { path: program } =
      (await bench.rooms.context.kernels.specs()).find(({ name }) => name === 'javascript') ?? {}
    const write = (env: Record<string, string>) =>
      writeFileSync(
        spec,
        JSON.stringify({
          argv: [process.execPath, program, '{connection_file}'],
          display_name: 'Other',
          language: 'javascript',
          env,
        }),
      )
    write({ FLAVOUR: 'old' })
    const ready = await kept(bench, 'other')
    const { room: plain } = await bench.create({ kernel: 'javascript' })
    expect(plain.id).not.toBe(ready.id)
    const nowhere = await bench.create({ kernel: 'other', working_dir: join(bench.home.work, 'nowhere') })
    expect(nowhere.room.id).not.toBe(ready.id)
    expect(running(bench)).toEqual([ready.pid])
    // What it was started from is not what the kernelspec says now.
    write({ FLAVOUR: 'fresh' })
    const { room } = await bench.create({ kernel: 'other' })
    expect(room.id).not.toBe(ready.id)
    await until('the one of the old kernelspec to be gone', () => !alive(ready.pid))
    const next = await kept(bench, 'other')
    const { room: second } = await bench.create({ kernel: 'other' })
    expect(second.id).toBe(next.id)
    expect(await bench.run(second, 'process.env.FLAVOUR')).toContain('fresh')
  }))

test('a kernel that has died, or that does not change its folder, is not given; the notebook is made all the same', () =>
  withGeneric(async (bench) => {
    const first = await kept(bench)
    process.kill(first.pid, 'SIGKILL')
    await until('its death', () => !alive(first.pid))
    const { room } = await bench.create({ kernel: 'javascript' })
    expect(room.id).not.toBe(first.id)
    await bench.projects.sweep()
    expect(bench.states().filter((state) => state !== 'active')).not.toContain('discarded')
    const second = await kept(bench)
    const closed = join(bench.home.work, 'goes')
    mkdirSync(closed)
    // The folder goes between the look and the move.
    const move = bench.projects.generic.move.bind(bench.projects.generic)
    bench.projects.generic.move = async (...given) => {
      rmSync(closed, { recursive: true })
      return move(...given)
    }
    const { room: cold } = await bench.create({ kernel: 'javascript', working_dir: closed })
    expect(cold.id).not.toBe(second.id)
    await until('the kernel of no use to be gone', () => !alive(second.pid))
  }))

test('a kernel that dies in the very moment in which a notebook takes it: the notebook has another one, or is told that it died', () =>
  withGeneric(async (bench) => {
    const move = bench.projects.generic.move.bind(bench.projects.generic)
    /** A notebook whose kernel is killed at `moment`; what its first two cells come to. */
    const taken = async (moment: (pid: number, moving: () => Promise<void>, room: Room) => Promise<void>) => {
      const { id, pid } = await kept(bench)
      bench.projects.generic.move = (room, folder) => moment(pid, () => move(room, folder), room)
      const { room } = await bench.create({ kernel: 'javascript', working_dir: bench.home.work })
      const first = await bench.run(room, '1 + 1')
      const second = await bench.run(room, 'process.cwd()')
      expect(room.presentKernel?.summary().pid).not.toBe(pid)
      return { same: room.id === id, first, second: second.includes(bench.home.work) }
    }
    const kill = async (pid: number) => {
      process.kill(pid, 'SIGKILL')
      await until('its death', () => !alive(pid))
    }
    // Before it is told where it is, and after that: the notebook is made the usual way.
    const before = await taken(async (pid, moving) => {
      await kill(pid)
      await moving()
    })
    expect(before).toEqual({ same: false, first: 'done 2', second: true })
    const after = await taken(async (pid, moving, room) => {
      await moving()
      await kill(pid)
      await until('word of it', () => room.presentKernel === null)
    })
    expect(after).toEqual({ same: false, first: 'done 2', second: true })
    // Nobody has told of it yet when the notebook is made: its first cell finds the next kernel, or is told of the death.
    const untold = await taken(async (pid, moving) => {
      await moving()
      process.kill(pid, 'SIGKILL')
    })
    expect(untold.first).toMatch(/^done 2$|died|killed|SIGKILL|lost/)
    expect(untold.second).toBe(true)
  }))

test('thirty notebooks made at once: one gets the kernel, all are different and none is left half made', () =>
  withGeneric(async (bench) => {
    const ready = await kept(bench)
    const path = (n: number) => join(bench.home.work, `${n}.ipynb`)
    const made = await Promise.all(
      Array.from({ length: 30 }, (_, n) => bench.create({ kernel: 'javascript', path: path(n) })),
    )
    const ids = made.map(({ room }) => room.id)
    expect(new Set(ids).size).toBe(30)
    expect(ids).toContain(ready.id)
    expect(bench.states()).toEqual(ids.map(() => 'active'))
    expect(running(bench)).toEqual([ready.pid])
    for (const [n, { room }] of made.entries()) expect(room.record.path).toBe(path(n))
    // The same path twice at once: one is made.
    const next = await kept(bench)
    const both = await Promise.allSettled(
      [1, 2].map(() => bench.create({ kernel: 'javascript', path: path(99) })),
    )
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(existsSync(path(99))).toBe(true)
    const ofPath = bench.store.all('SELECT notebook_id FROM rooms WHERE path = ?', path(99))
    expect(ofPath).toHaveLength(1)
    expect(bench.states().every((state) => state === 'active' || state === 'discarded')).toBe(true)
    await until('what was of no use to be gone', () => bench.projects.generic.rooms.length === 0)
    expect([next.pid, null]).toContain(running(bench)[1] ?? null)
  }))

test('a store that refuses leaves no file and no room, and the next notebook is made', () =>
  withGeneric(async (bench) => {
    await kept(bench)
    await bench.store.write([
      {
        sql: `CREATE TRIGGER refuse BEFORE UPDATE OF path ON rooms WHEN NEW.path LIKE '%refused.ipynb'
              BEGIN SELECT RAISE(ABORT, 'refused'); END`,
        values: [],
      },
    ])
    const path = join(bench.home.work, 'refused.ipynb')
    await expect(bench.create({ kernel: 'javascript', path })).rejects.toMatchObject({
      code: 'storage_failed',
    })
    expect(existsSync(path)).toBe(false)
    await until('nothing of it to be left', async () => {
      // A room that could not be stored tries again by the clock; the sweep takes it away when it can.
      bench.clock.advance(30_000)
      await bench.projects.sweep()
      return bench.projects.tier.all().every((tier) => !tier.leaving)
    })
    const { room } = await bench.create({ kernel: 'javascript', path: join(bench.home.work, 'next.ipynb') })
    expect(await bench.run(room, '1 + 1')).toBe('done 2')
  }))

test('after a daemon’s death what waited is retired with its process and folder, and one is made anew; not used for a day, it goes', () =>
  withGeneric(async (bench) => {
    await bench.store.write([
      {
        sql: 'INSERT INTO kernel_use (name, used_at) VALUES (?, ?)',
        values: ['javascript', bench.clock.now()],
      },
    ])
    const old = await kept(bench)
    const stray = join(scratch(bench), '00000000-0000-4000-8000-000000000000')
    mkdirSync(stray)
    await bench.restart()
    expect(alive(old.pid)).toBe(false)
    expect(readdirSync(scratch(bench))).toEqual(['00000000-0000-4000-8000-000000000000'])
    bench.clock.advance(0)
    await until('the folder of no room to go', () => !existsSync(stray))
    const next = await until('the next', () => bench.projects.generic.rooms[0]?.pid)
    await bench.projects.generic.settled()
    bench.clock.advance(USED_MS)
    await bench.projects.sweep()
    await until('the end of it', () => !alive(next))
    expect(bench.states()).toEqual([])
  }))

async function listed(bench: Bench): Promise<string[]> {
  const context = { identity: {} as never, signal: new AbortController().signal }
  const { rooms } = (await bench.rooms.request('list_rooms', { inactive: true, limit: 10 }, context)) as {
    rooms: { notebook_id: string }[]
  }
  return rooms.map(({ notebook_id }) => notebook_id)
}
