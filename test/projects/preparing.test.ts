/** What a room's kernel is prepared with: the same for one that waits and for one that is asked for, and nothing that nobody wants. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Deputies } from '../../daemon/projects/deputies.ts'
import type { OwnSettings } from '../../daemon/projects/settings.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { type Seeded, withSeeded } from './seeded.ts'

/** Programs other than git that are started in a workspace from here on. */
function programs(seeded: Seeded): string[][] {
  const { deputies } = seeded.projects.context
  const run = deputies.run.bind(deputies)
  const started: string[][] = []
  deputies.run = (program, args, options) => {
    started.push([program, ...args])
    return run(program, args, options)
  }
  return started
}

test.each<[string, OwnSettings, string | null]>([
  ['no settings', {}, null],
  ['an empty list', { setup: [] }, null],
  ['a roomd.json that is not JSON', {}, '{"setup": ["touch x"'],
  ['a roomd.json that is not as it should be', {}, '{"setup": "touch x"}'],
])('%s: no shell is started, and rooms are made', (_what, own, manifest) =>
  withSeeded(async (seeded) => {
    const started = programs(seeded)
    seeded.git.manifest = manifest
    const { project } = await seeded.add('one', { depth: 1, ...own })
    await seeded.fill(project)
    const claim = await seeded.through(seeded.claim(project))
    expect(claim).toMatchObject({ claim: 'warm', standby: 'ready' })
    expect(started).toEqual([])
    // What is wrong with it is said.
    expect(project.manifest.problem).toEqual(manifest === null ? null : expect.stringContaining('roomd.json'))
    // The same with a command starts one.
    seeded.git.manifest = '{"setup": ["true"]}'
    const { project: other } = await seeded.add('two', { depth: 1 })
    await seeded.fill(other)
    expect(started).toEqual([['/bin/sh', '-c', 'true']])
  }),
)

test('a standby starts as a kernel does that somebody asks for, and what it was started from is kept', () =>
  withSeeded(async (seeded) => {
    const { project } = await seeded.add('one', { depth: 1, env: { A: 'b' } })
    await seeded.fill(project)
    const warm = await seeded.through(seeded.claim(project))
    const cold = await seeded.through(seeded.claim(project, { skip_warm: true }))
    const { room } = await seeded.attach(cold.notebook_id)
    await seeded.through(until('its kernel', () => room.presentKernel !== null))
    const [ahead, asked] = [warm, cold].map(({ notebook_id }) =>
      seeded.kernels.starts.find(({ notebookId }) => notebookId === notebook_id),
    )
    const plain = (request: typeof ahead, workspace: string) => {
      const { notebookId: _id, signal: _signal, standby: _standby, ...rest } = request ?? {}
      return JSON.parse(JSON.stringify(rest).replaceAll(workspace, 'WORKSPACE'))
    }
    expect(plain(ahead, warm.workspace)).toEqual(plain(asked, cold.workspace))
    expect(plain(ahead, warm.workspace)).toMatchObject({ cwd: 'WORKSPACE', env: { A: 'b' } })
    expect([ahead?.standby, asked?.standby]).toEqual([true, false])
    const [one, two] = [warm, cold].map(
      ({ notebook_id }) => seeded.projects.tier.get(notebook_id)?.workspace.detail.fingerprint,
    )
    expect(one).toEqual(two)
    expect(Object.keys(one ?? {}).length).toBeGreaterThan(2)
  }))

test('a program that says nothing for too long, or takes too long, is ended with all that it has started', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-deputies-'))
  try {
    const deputies = new Deputies(join(folder, 'running'))
    const run = async (code: string, limits: (ms: number) => { stallMs?: number; limitMs?: number }) => {
      // A machine may be so busy that it is over before it has begun: then it is given more time.
      for (let ms = 300; ; ms *= 3) {
        let pid = 0
        const end = await deputies.run('/bin/sh', ['-c', code], {
          cwd: folder,
          env: { PATH: process.env.PATH ?? '' },
          heard: (text) => {
            pid ||= Number.parseInt(text, 10)
          },
          ...limits(ms),
        })
        if (pid > 0) {
          await gone(pid)
          return end
        }
      }
    }
    const silent = await run('sleep 600 & echo $!; wait', (stallMs) => ({ stallMs }))
    expect(silent).toMatchObject({ ended: 'stalled' })
    const chatty = 'sleep 600 & echo $!; while :; do echo x; sleep 0.01; done'
    const endless = await run(chatty, (limitMs) => ({ stallMs: 60_000, limitMs }))
    expect(endless).toMatchObject({ ended: 'too_long' })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a fetch that is given up because nothing is heard keeps no claim from its room, and no standby from starting: both may be old', () =>
  withSeeded(async (seeded) => {
    const { project, move } = await seeded.add('one', { depth: 1 })
    seeded.git.silent = true
    move()
    await seeded.fill(project)
    const warm = await seeded.through(seeded.claim(project))
    const cold = await seeded.through(seeded.claim(project, { skip_warm: true }))
    for (const claim of [warm, cold]) expect(claim.stale).toContain('nothing was heard')
    expect(warm).toMatchObject({ claim: 'warm', standby: 'ready' })
    seeded.git.silent = false
    expect((await seeded.through(seeded.claim(project))).stale).toBeUndefined()
  }))
