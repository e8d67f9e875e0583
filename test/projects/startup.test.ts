/** What a daemon does with what the last one left: rows first, then kernels by their rows, then folders, then the pools. */
import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveRoom } from '../../daemon/projects/archive.ts'
import type { Project } from '../../daemon/projects/project.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { until } from '../support/until.ts'
import { type Seeded, withSeeded } from './seeded.ts'

/** Ids of the rooms that lists show. */
async function listed(seeded: Seeded): Promise<string[]> {
  const context = { identity: { rooms: null } as never, signal: new AbortController().signal }
  const { rooms } = (await seeded.rooms.request('list_rooms', { inactive: true, limit: 100 }, context)) as {
    rooms: { notebook_id: string }[]
  }
  return rooms.map(({ notebook_id }) => notebook_id).sort()
}

/** Claimed, worked in, left; with its kernel if it has or wants one. */
async function worked(seeded: Seeded, project: Project): Promise<string> {
  const claim = await seeded.through(seeded.claim(project))
  const { room, leave } = await seeded.attach(claim.notebook_id)
  await seeded.edit(room, '1')
  await seeded.through(room.slot.want())
  leave()
  return claim.notebook_id
}

/** Until a wait of this name is held. */
async function heldAt(seeded: Seeded, name: string): Promise<void> {
  await until(name, () => {
    if (seeded.scheduler.names.includes(name)) return true
    if (seeded.scheduler.held > 0) seeded.scheduler.step()
    return false
  })
}

const retired = (seeded: Seeded) => seeded.events.filter((event) => event.type === 'draft_retired')

test('warming, pooled and draft rooms are retired, with kernels and folders; files of a user are kept; what was worked in stays as it is', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', { depth: 1 })
    await seeded.fill(project)
    // Born a standby and claimed, by now somebody's: it is nobody's standby.
    const born = await worked(seeded, project)
    const itsKernel = seeded.kernels.of(born)
    expect(seeded.kernels.starts.find(({ notebookId }) => notebookId === born)?.standby).toBe(true)
    await seeded.fill(project)
    writeFileSync(join(seeded.projects.context.places.workspaces, born, 'mine.txt'), 'mine')
    const draft = await seeded.through(seeded.claim(project))
    await seeded.fill(project)
    const away = await seeded.through(seeded.claim(project, { skip_warm: true }))
    rmSync(away.workspace, { recursive: true })
    const files = await seeded.through(seeded.claim(project, { skip_warm: true }))
    const [mine, mark] = ['mine.csv', '.git/roomd/prepared'].map((name) => join(files.workspace, name))
    // File systems count time in ticks of some milliseconds: newer is a tick later.
    await until('the next tick', () => {
      writeFileSync(mine ?? '', 'mine')
      return statSync(mine ?? '').ctimeMs > statSync(mark ?? '').ctimeMs
    })
    await seeded.fill(project)
    const [pooled] = seeded.projects.list.poolOf(project).pooled
    project.record.own = { ...project.record.own, depth: 2 }
    seeded.projects.list.poolOf(project).ensure()
    await heldAt(seeded, 'git clone')
    expect(seeded.states().sort()).toEqual(['active', 'draft', 'draft', 'draft', 'pooled', 'warming'])
    expect(await listed(seeded)).toEqual([born])
    expect(seeded.kernels.alive.size).toBe(3)

    await seeded.restart()
    expect(seeded.states()).toEqual(['active'])
    expect(seeded.workspaces()).toEqual([born])
    expect(existsSync(join(seeded.projects.context.places.workspaces, born, 'mine.txt'))).toBe(true)
    expect([...seeded.kernels.alive]).toEqual([itsKernel])
    expect((await seeded.rooms.byId(born as never)).presentKernel?.id).toBe(itsKernel?.id)
    expect(seeded.projects.hooks.standbys()).toEqual([])
    expect(
      seeded.projects.list.all().every((each) => seeded.projects.list.poolOf(each).rooms.length === 0),
    ).toBe(true)
    for (const id of [draft.notebook_id, pooled?.id ?? ''])
      await expect(seeded.rooms.byId(id as never)).rejects.toMatchObject({ code: 'notebook_unavailable' })
    const told = retired(seeded)
    expect(told.map((event) => 'notebook_id' in event && event.notebook_id).sort()).toEqual(
      [draft, away, files].map(({ notebook_id }) => notebook_id).sort(),
    )
    const kept = told.flatMap((event) => (event.type === 'draft_retired' && event.kept ? [event.kept] : []))
    expect(kept.map((folder) => existsSync(join(folder, 'mine.csv')))).toEqual([true])
    expect(seeded.faults).toEqual([])

    // Again there is nothing to retire, and nothing to end.
    await seeded.restart()
    expect(retired(seeded)).toHaveLength(3)
    expect(seeded.states()).toEqual(['active'])
    expect([...seeded.kernels.alive]).toEqual([itsKernel])
  }))

test('each project is warmed once at a start: whose room has lost its workspace, whose clone was cut off, and who has no room', () =>
  withSeeded(async (seeded) => {
    const { project: stale } = await seeded.add('stale', { depth: 1 })
    await seeded.fill(stale)
    rmSync(seeded.projects.list.poolOf(stale).pooled[0]?.workspace.folder ?? '', { recursive: true })
    const { project: empty } = await seeded.add('empty', { depth: 1 })
    const { project: none } = await seeded.add('none')
    const { project: late } = await seeded.add('late', { depth: 1 })
    await seeded.fill(empty)
    await seeded.fill(late)
    await seeded.store.write([
      { sql: "UPDATE projects SET status = 'cloning' WHERE project_id = ?", values: [empty.record.id] },
    ])
    await seeded.restart()
    expect(seeded.projects.list.all().find(({ record }) => record.name === 'empty')?.record.status).toBe(
      'cloning',
    )
    seeded.events.length = 0
    const before = seeded.kernels.starts.length
    // Behind everything that waits to be served; whoever else asks at the same time does not double it.
    seeded.clock.advance(0)
    const projects = seeded.projects.list.all()
    await seeded.through(
      until('the pools', () => {
        for (const { pool } of seeded.projects.list.pools()) pool.ensure()
        return projects.every(
          (each) => seeded.projects.list.poolOf(each).pooled.length === each.settings.depth,
        )
      }),
    )
    for (const each of projects) await seeded.through(seeded.projects.list.poolOf(each).settled())
    const ready = seeded.events.flatMap((event) =>
      event.type === 'project_warm_ready' ? [event.project] : [],
    )
    expect(ready.sort()).toEqual([stale, empty, late].map(({ record }) => record.id).sort())
    expect(seeded.kernels.starts).toHaveLength(before + 3)
    expect(projects.map(({ record }) => record.status)).toEqual(projects.map(() => 'ready'))
    const rows = seeded.store.all<{ project_id: string }>(
      "SELECT project_id FROM rooms JOIN workspaces USING (notebook_id) WHERE state = 'pooled'",
    )
    expect(rows.map(({ project_id }) => project_id)).not.toContain(none.record.id)
    expect(rows).toHaveLength(3)
    expect(await listed(seeded)).toEqual([])
  }))

test('a start ends no kernel where nobody’s is left, and one that cannot be ended does not keep the others waiting', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const mine = await worked(seeded, project)
    await seeded.restart()
    expect(seeded.kernels.of(mine)).toBeDefined()
    const [again] = seeded.projects.list.all()
    if (!again) throw new Error('the project is gone')
    again.record.own = { ...again.record.own, depth: 2 }
    await seeded.fill(again, 2)
    const [first, second] = seeded.projects.list.poolOf(again).pooled
    const stuck = seeded.kernels.of(first?.id ?? '')
    if (!stuck) throw new Error('no kernel is there')
    stuck.shutdown = () => Promise.reject(new Error('it cannot be ended'))
    await seeded.restart()
    expect(seeded.kernels.of(mine)).toBeDefined()
    expect(seeded.kernels.of(second?.id ?? '')).toBeUndefined()
    expect(seeded.states()).toEqual(['active'])
    expect(await listed(seeded)).toEqual([mine])
  }))

test('the kernel of a room that was archived is ended, pinned or not, and by the next daemon if this one dies before', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const [done, cut] = [await worked(seeded, project), await worked(seeded, project)]
    for (const id of [done, cut]) await (await seeded.rooms.byId(NotebookId.parse(id))).terms.keep(-1)
    const archive = (id: string) =>
      archiveRoom(seeded.projects.context, seeded.projects.tier, NotebookId.parse(id), false)
    await seeded.through(archive(done))
    expect(seeded.kernels.of(done)).toBeUndefined()
    archive(cut).catch(() => undefined) // its daemon dies
    await heldAt(seeded, 'kernel end')
    expect(seeded.kernels.of(cut)).toBeDefined()
    await seeded.restart()
    expect(seeded.kernels.alive.size).toBe(0)
    expect(seeded.states()).toEqual(['archived', 'archived'])
    expect(seeded.workspaces()).toEqual([])
  }))
