/** Nothing of a repository runs before a person trusts it: not its setup, not its preload, not an interpreter that would load its files. */
import { chmodSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { withProjects } from './fixture.ts'

test('an untrusted repository with sitecustomize.py, a module named like a stdlib one, a .pth and a hostile roomd.json runs nothing', (context) => {
  needs(context, 'Python kernel')
  return withProjects(async (bench) => {
    const ran = join(bench.home.work, 'ran')
    const attack = `open(${JSON.stringify(ran)}, 'a').write('x')\n`
    const repository = bench.repository({
      'sitecustomize.py': attack,
      'usercustomize.py': attack,
      'json.py': attack,
      'ipykernel_launcher.py': attack,
      'evil.pth': `import os; ${attack}`,
      '.venv/bin/python': `#!/bin/sh\necho x >> ${ran}\n`,
      '.venv/pyvenv.cfg': 'home = /usr/bin\n',
      '.gitattributes': '* filter=evil\n',
      'roomd.json': JSON.stringify({
        kernel: 'python3',
        interpreter: '.venv/bin/python',
        setup: [`echo x >> ${ran}`],
        preload: [attack],
        data: ['/etc'],
        env: { PYTHONPATH: '.', PYTHONSTARTUP: 'sitecustomize.py' },
      }),
    })
    // What its own configuration names must not run either.
    repository.git('config', 'core.fsmonitor', `echo x >> ${ran}; true`)
    repository.git('config', 'filter.evil.clean', `sh -c 'echo x >> ${ran}; cat'`)
    repository.git('config', 'filter.evil.smudge', `sh -c 'echo x >> ${ran}; cat'`)
    for (const hook of ['post-checkout', 'post-index-change', 'reference-transaction'])
      repository.write(`.git/hooks/${hook}`, `#!/bin/sh\necho x >> ${ran}\n`)
    for (const file of ['.venv/bin/python', '.git/hooks/post-checkout', '.git/hooks/post-index-change'])
      chmodSync(join(repository.folder, file), 0o755)
    repository.write('changed.txt', 'new')
    const project = await bench.add(repository, { depth: 1 }, false)
    await bench.pooled(project)
    const warm = await bench.claim(project)
    const cold = await bench.claim(project, { skip_warm: true, settings: { include_uncommitted: true } })
    for (const claim of [warm, cold]) {
      expect(claim.standby).toBe('missing')
      const { room } = await bench.attach(claim.notebook_id)
      await expect(room.terms.mustHaveKernelspec()).rejects.toMatchObject({ code: 'forbidden' })
      await expect(room.slot.want()).rejects.toMatchObject({ code: 'forbidden' })
      expect(existsSync(join(claim.workspace, 'etc'))).toBe(false)
    }
    await bench.projects.sweep()
    expect(bench.rooms.context.kernels.running()).toEqual([])
    expect(existsSync(ran)).toBe(false)
    // That is what trust is for.
    await bench.projects.trust(project, true)
    await until('its setup to run', () => existsSync(ran))
  })
})

test('trust that is given while a draft is open sets that draft up and starts its kernel', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { setup: ['echo made > made.txt'] }, false)
    const claim = await bench.claim(project)
    const { room } = await bench.attach(claim.notebook_id)
    expect(existsSync(join(claim.workspace, 'made.txt'))).toBe(false)
    await bench.projects.trust(project, true)
    await until('the kernel of the open draft', () => room.presentKernel !== null, { timeout: 40_000 })
    expect(existsSync(join(claim.workspace, 'made.txt'))).toBe(true)
    expect(room.record.state).toBe('draft')
  }))
