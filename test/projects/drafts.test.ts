/** Drafts: whose they are, how they become rooms, and what becomes of them when nobody comes. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { LEASE_MS } from '../../daemon/projects/drafts.ts'
import { userFiles } from '../../daemon/projects/kept-files.ts'
import { until } from '../support/until.ts'
import { withProjects } from './fixture.ts'

test('the first edit makes a draft a room, in one transaction with its title, and tells so once', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    const { notebook_id } = await bench.claim(project)
    const { room } = await bench.attach(notebook_id)
    const list = async () => {
      const context = { identity: { rooms: null } as never, signal: new AbortController().signal }
      const { rooms } = (await bench.rooms.request('list_rooms', { inactive: true, limit: 9 }, context)) as {
        rooms: { notebook_id: string; title: string }[]
      }
      return rooms.map((each) => [each.notebook_id, each.title])
    }
    expect(await list()).toEqual([])
    await bench.edit(room, 'answer = 42\nother()')
    await bench.edit(room, 'second')
    expect(await list()).toEqual([[notebook_id, 'answer = 42']])
    const row = bench.store.get('SELECT state, title FROM rooms WHERE notebook_id = ?', notebook_id)
    expect(row).toEqual({ state: 'active', title: 'answer = 42' })
    expect(bench.events.filter((event) => event.type === 'rooms_changed')).toHaveLength(1)
    expect(bench.projects.tier.get(room.id)).toBeUndefined()
  }))

test('the first execution makes a draft a room too', () =>
  withProjects(async (bench) => {
    const { notebook_id } = await bench.claim(await bench.add(bench.repository()))
    const { room } = await bench.attach(notebook_id)
    expect(await bench.run(room, '40 + 2')).toBe('done 42')
    expect(room.record).toMatchObject({ state: 'active', title: '40 + 2' })
  }))

test('a draft that nobody is in for 15 minutes goes back to the pool; with files of a user in it, it goes and they are kept', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    const first = await bench.claim(project)
    const second = await bench.claim(project)
    const { leave } = await bench.attach(first.notebook_id)
    writeFileSync(join(second.workspace, 'mine.csv'), 'mine')
    project.record.own = { ...project.record.own, depth: 1 }
    bench.clock.advance(LEASE_MS - 1)
    expect(bench.states()).toEqual(['draft', 'draft'])
    bench.clock.advance(1)
    const retired = () => bench.events.filter((event) => event.type === 'draft_retired')
    await until('the second to be gone and told', () => !existsSync(second.workspace) && retired().length > 0)
    // Somebody is in the first: no lease runs.
    bench.clock.advance(LEASE_MS)
    expect(bench.projects.tier.get(first.notebook_id)?.room.record.state).toBe('draft')
    const [kept] = bench.projects.tier.keptOf(project.record.id)
    expect(readFileSync(join(kept?.path ?? '', 'mine.csv'), 'utf8')).toBe('mine')
    expect(retired()).toHaveLength(1)
    await bench.projects.list.poolOf(project).settled()
    leave()
    bench.clock.advance(LEASE_MS)
    await until('the first to be settled', () => {
      const state = bench.projects.tier.get(first.notebook_id)?.room.record.state
      return state === undefined || state === 'pooled'
    })
  }))

test('what somebody puts into a draft while it is set up is his; what setup makes and git ignores is not', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ '.gitignore': 'made/\n.env\n' })
    const project = await bench.add(repository, { setup: ['mkdir made; echo x > made/by-setup'] })
    const { notebook_id, workspace } = await bench.claim(project)
    bench.steps.after = (name) => {
      if (name !== 'setup') return
      writeFileSync(join(workspace, 'mine.csv'), 'mine')
      // Ignored, and yet nobody's but his.
      writeFileSync(join(workspace, '.env'), 'KEY=mine')
    }
    const { room, leave } = await bench.attach(notebook_id)
    await until('the kernel', () => room.presentKernel !== null)
    expect((await userFiles(workspace)).sort()).toEqual(['.env', 'mine.csv'])
    leave()
  }))

test('the store itself refuses an edit of a room that is no room yet, a step that there is not, and two rooms in one slot', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository())
    const a = await bench.claim(project)
    const b = await bench.claim(project)
    const write = (sql: string, ...values: (string | number)[]) => bench.store.write([{ sql, values }])
    const refused = { code: 'storage_failed' }
    const edit =
      "INSERT INTO doc_updates (notebook_id, doc_seq, body, origin, at) VALUES (?, 1, x'00', 'x', 1)"
    await expect(write(edit, a.notebook_id)).rejects.toMatchObject(refused)
    const state = 'UPDATE rooms SET state = ?, generation = generation + 1 WHERE notebook_id = ?'
    await expect(write(state, 'warming', a.notebook_id)).rejects.toMatchObject(refused)
    await expect(write(state, 'pooled', a.notebook_id)).rejects.toMatchObject(refused)
    await expect(
      write("UPDATE rooms SET state = 'active' WHERE notebook_id = ?", a.notebook_id),
    ).rejects.toMatchObject(refused)
    await write("UPDATE workspaces SET slot = 'x' WHERE notebook_id = ?", a.notebook_id)
    await expect(
      write("UPDATE workspaces SET slot = 'x' WHERE notebook_id = ?", b.notebook_id),
    ).rejects.toMatchObject(refused)
    expect(bench.states()).toEqual(['draft', 'draft'])
  }))
