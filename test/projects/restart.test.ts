/** A daemon is killed: nothing warm survives, everything that somebody worked in does. */
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Repository } from './repository.ts'

const withUsersHome = (use: (home: TestHome) => Promise<void>) => withHome(use, {}, null)

test('kill -9 with warming, pooled, draft and active rooms: the first three are gone, the active kernel and its variables stay, the pool is warm again', () =>
  // All is set as it is for users: a kernel for new notebooks is kept ready too.
  withUsersHome(async (home) => {
    const make = (name: string) => {
      const repository = new Repository(join(home.work, name))
      repository.commit({ 'a.txt': 'a\n' })
      return repository.folder
    }
    mkdirSync(home.work, { recursive: true })
    const daemon = await startDaemon(home)
    const client = await connect({ env: home.env, label: 'test', kind: 'cli' })
    const plain = await client.openRoom({ create: { kernel: 'javascript' } })
    await (await plain.execute({ code: '1' })).done
    const forNotebooks = () =>
      until(
        'a kernel for new notebooks',
        async () =>
          (await client.call('list_kernels', {})).standbys.find(
            ({ project: of, state }) => of === undefined && state === 'ready',
          ),
        { timeout: 60_000, every: 100 },
      )
    const settings = { kernel: 'javascript', depth: 1, trust: true }
    const { project } = await client.call('add_project', { source: make('one'), ...settings })
    const slots = async (name: string) =>
      (await client.call('pool_status', {})).projects.find((each) => each.name === name)?.slots ?? []
    const ready = (name: string) =>
      until(
        'a warm room',
        async () => (await slots(name)).find((slot) => slot.state === 'pooled' && slot.standby === 'ready'),
        {
          timeout: 60_000,
          every: 100,
        },
      )
    await ready('one')
    const active = await client.call('claim_room', { project: project.id, interactive: false })
    const room = await client.openRoom({ notebook_id: active.notebook_id })
    await (await room.execute({ code: 'globalThis.kept = 42' })).done
    const pid = room.state.kernel?.pid
    const draft = await client.call('claim_room', { project: project.id, interactive: false })
    const pooled = await ready('one')
    const { project: slow } = await client.call('add_project', {
      source: make('slow'),
      ...settings,
      setup: ['sleep 600'],
    })
    const warming = await until('a setup under way', async () => {
      const running = join(home.places.state, 'deputies')
      return (
        (await slots(slow.name))[0] &&
        existsSync(running) &&
        readdirSync(running).length > 0 &&
        (await slots(slow.name))[0]
      )
    })
    const generic = await forNotebooks()
    const retired = [draft.notebook_id, pooled.notebook_id, warming.notebook_id]

    await daemon.kill9()
    await startDaemon(home)

    const next = await ready('one')
    expect(retired).not.toContain(next.notebook_id)
    for (const id of retired) expect(existsSync(join(home.places.data, 'workspaces', id))).toBe(false)
    if (pooled.pid !== undefined) await gone(pooled.pid)
    const nextGeneric = await forNotebooks()
    expect(nextGeneric.pid).not.toBe(generic.pid)
    if (generic.pid !== null) await gone(generic.pid)
    expect(existsSync(join(home.places.data, 'scratch', generic.notebook_id ?? ''))).toBe(false)
    const taken = await client.openRoom({ create: { kernel: 'javascript' } })
    expect(taken.state.kernel?.pid).toBe(nextGeneric.pid)
    const again = await room.execute({ code: 'kept' })
    const { execution, status } = await again.done
    expect(status).toBe('done')
    expect(JSON.stringify(execution.outputs)).toContain('42')
    expect(room.state.kernel?.pid).toBe(pid)
    await expect(client.openRoom({ notebook_id: draft.notebook_id })).rejects.toMatchObject({
      code: 'notebook_unavailable',
    })
    await client.close()
  }))
