/** In which order a claim finds its room, and whom it is given to: with every wait held by the test. */
import { expect, test } from 'vitest'
import { NotebookId } from '../../protocol/ids.ts'
import { until } from '../support/until.ts'
import { withSeeded } from './seeded.ts'

test('the row of a cold claim is hidden while it clones', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const claiming = seeded.claim(project)
    await until('the clone', () => {
      if (seeded.scheduler.names.includes('git clone')) return true
      if (seeded.scheduler.held > 0) seeded.scheduler.step()
      return false
    })
    expect(seeded.states()).toEqual(['warming'])
    const context = { identity: { rooms: null } as never, signal: new AbortController().signal }
    expect(await seeded.rooms.request('list_rooms', { inactive: true, limit: 9 }, context)).toEqual({
      rooms: [],
    })
    await seeded.through(claiming)
  }))

test('an own draft is given again to interactive claims of the same client instance, and to nobody else', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const claim = (
      ...given: Parameters<typeof seeded.claim> extends [unknown, ...infer Rest] ? Rest : never
    ) => seeded.through(seeded.claim(project, ...given))
    const first = await claim({ interactive: true })
    expect(await claim({ interactive: true })).toMatchObject({
      claim: 'draft',
      notebook_id: first.notebook_id,
    })
    const other = await claim({ interactive: true }, { owner: 'client-two' })
    const agent = await claim()
    const excluded = await claim({ interactive: true, exclude: [NotebookId.parse(first.notebook_id)] })
    const fresh = await claim({ interactive: true, skip_warm: true })
    const settings = await claim({ interactive: true, settings: { include_uncommitted: true } })
    const ids = [other, agent, excluded, fresh, settings].map(({ notebook_id }) => notebook_id)
    expect(new Set([...ids, first.notebook_id]).size).toBe(6)
    // An agent’s room is no draft for the person at the same client.
    expect((await claim({ interactive: true })).notebook_id).not.toBe(agent.notebook_id)
    // The draft itself is as it was, and whose it was.
    const row = seeded.store.get(
      'SELECT state, owner FROM rooms JOIN workspaces USING (notebook_id) WHERE notebook_id = ?',
      first.notebook_id,
    )
    expect(row).toEqual({ state: 'draft', owner: 'client-one' })
  }))

test('an own draft is given without waiting for a warming', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const draft = await seeded.through(seeded.claim(project, { interactive: true }))
    project.record.own = { ...project.record.own, depth: 1 }
    seeded.projects.list.poolOf(project).ensure()
    const warming = 'warm: kernelspec'
    await until('the warming', () => seeded.scheduler.names.includes(warming))
    // Everything goes on but the warming.
    seeded.scheduler.holds = () => false
    const again = await seeded.claim(project, { interactive: true })
    expect(again).toMatchObject({ claim: 'draft', notebook_id: draft.notebook_id })
    expect(seeded.scheduler.names).toEqual([warming])
  }))

test('a draft whose kernel was chosen by somebody is not given again', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const draft = await seeded.through(seeded.claim(project, { interactive: true }))
    const { room } = await seeded.attach(draft.notebook_id)
    // It is on its way to the store when the next claim comes.
    const writing = room.terms.choose('another')
    const claim = await seeded.through(seeded.claim(project, { interactive: true }))
    await writing
    expect(claim.notebook_id).not.toBe(draft.notebook_id)
  }))

test('a claim that waits in line when its asker goes away never begins', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const first = seeded.claim(project)
    await until('the first claim to clone', () => {
      if (seeded.scheduler.names.includes('git clone')) return true
      if (seeded.scheduler.held > 0) seeded.scheduler.step()
      return false
    })
    const gone = new AbortController()
    const second = seeded.claim(project, {}, { signal: gone.signal })
    gone.abort(new Error('gone'))
    await expect(second).rejects.toThrow('gone')
    let clones = 0
    seeded.scheduler.holds = (name) => {
      if (name === 'git clone') clones++
      return true
    }
    await seeded.through(first)
    expect(clones).toBe(0)
    expect(seeded.states()).toEqual(['draft'])
  }))
