/** A claim that is sent again under its mutation id: one room and one answer, for as long as that room is the claimer's. */
import { expect, test } from 'vitest'
import type { Project } from '../../daemon/projects/project.ts'
import type { TierRoom } from '../../daemon/projects/tier.ts'
import { ClientInstance, MutationId } from '../../protocol/ids.ts'
import type { Claim } from '../../protocol/projects.ts'
import { until } from '../support/until.ts'
import { type Seeded, withSeeded } from './seeded.ts'

function send(seeded: Seeded, project: Project, id: number, signal = new AbortController().signal) {
  const identity = {
    connectionId: '1',
    clientInstance: ClientInstance.parse('client-one'),
    label: 'Tester',
    kind: 'mcp' as const,
    scope: 'owner' as const,
  }
  return seeded.rooms.request(
    'claim_room',
    {
      project: project.record.id,
      interactive: false,
      force_fetch: false,
      skip_warm: false,
      exclude: [],
      settings: {},
    },
    { identity, signal, mutationId: MutationId.parse(id) },
  ) as Promise<Claim>
}

function tierOf(seeded: Seeded, { notebook_id }: Claim): TierRoom {
  const tier = seeded.projects.tier.get(notebook_id)
  if (!tier) throw new Error(`room ${notebook_id} is not there`)
  return tier
}

test('a claim sent again gets the same answer, while the first is under way, after it, and after others; another id is another room', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const [first, same] = await seeded.through(
      Promise.all([send(seeded, project, 1), send(seeded, project, 1)]),
    )
    expect(same).toEqual(first)
    expect(seeded.states()).toEqual(['draft'])
    const other = await seeded.through(send(seeded, project, 2))
    expect(other.notebook_id).not.toBe(first.notebook_id)
    expect(await seeded.through(send(seeded, project, 1))).toEqual(first)
    expect(seeded.states()).toEqual(['draft', 'draft'])
  }))

test('a claim sent again after its room went back to the pool, or away, is a new one: nobody is given what is not his any more', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const first = await seeded.through(send(seeded, project, 1))
    project.record.own = { ...project.record.own, depth: 1 }
    await seeded.through(seeded.projects.drafts.expire(tierOf(seeded, first)))
    expect(seeded.states()).toEqual(['pooled'])
    const others = await seeded.through(seeded.claim(project, {}, { owner: 'client-two' }))
    expect(others.notebook_id).toBe(first.notebook_id)
    const again = await seeded.through(send(seeded, project, 1))
    expect(again.notebook_id).not.toBe(first.notebook_id)

    project.record.own = { ...project.record.own, depth: 0 }
    const away = await seeded.through(send(seeded, project, 3))
    await seeded.through(seeded.projects.tier.discard(tierOf(seeded, away), 'the test discards it'))
    const anew = await seeded.through(send(seeded, project, 3))
    expect(anew.notebook_id).not.toBe(away.notebook_id)
  }))

test('a claim whose connection ends is done anew for the one on which it is sent again; no second room is left', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const gone = new AbortController()
    const first = send(seeded, project, 1, gone.signal)
    first.catch(() => undefined) // looked at below
    await until('the clone', async () => {
      if (seeded.scheduler.names.includes('git clone')) return true
      seeded.scheduler.step()
      return false
    })
    const again = send(seeded, project, 1)
    gone.abort(new Error('the connection is gone'))
    const claim = await seeded.through(again)
    await expect(first).rejects.toThrow('the connection is gone')
    expect(seeded.states()).toEqual(['draft'])
    expect(seeded.workspaces()).toEqual([claim.notebook_id])
  }))

test('after a daemon’s death a claim sent again is the same room if somebody has worked in it, else a new one; there is one', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one')
    const worked = await seeded.through(send(seeded, project, 1))
    const { room } = await seeded.attach(worked.notebook_id)
    await seeded.edit(room, '1')
    const draft = await seeded.through(send(seeded, project, 2))
    const half = send(seeded, project, 3)
    half.catch(() => undefined) // its daemon dies
    await until('the clone', async () => {
      if (seeded.scheduler.names.includes('git clone')) return true
      seeded.scheduler.step()
      return false
    })
    await seeded.restart()
    const [again] = seeded.projects.list.all()
    if (!again) throw new Error('the project is gone')
    expect(await seeded.through(send(seeded, again, 1))).toEqual(worked)
    const second = await seeded.through(send(seeded, again, 2))
    expect(second.notebook_id).not.toBe(draft.notebook_id)
    const third = await seeded.through(send(seeded, again, 3))
    const three = [worked, second, third].map(({ notebook_id }) => notebook_id)
    expect(seeded.workspaces()).toEqual(three.sort())
    expect(seeded.states().sort()).toEqual(['active', 'draft', 'draft'])
  }))
