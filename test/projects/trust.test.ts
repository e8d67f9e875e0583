/** Nothing of a repository runs before a person trusts it: not its setup, not its preload, not an interpreter that would load its files. */
import { chmodSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { withProjects } from './fixture.ts'
import { Repository } from './repository.ts'

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
    // Nor what a submodule's does.
    const library = bench.repository({ 'lib.txt': 'l\n', '.gitattributes': '* filter=evil\n' }, 'library')
    repository.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library.folder, 'lib')
    repository.git('config', '--file', '.gitmodules', 'submodule.lib.ignore', 'none')
    repository.git('add', '.gitmodules')
    repository.git('commit', '--quiet', '-m', 'with a submodule')
    repository.git('-C', 'lib', 'commit', '--quiet', '--allow-empty', '-m', 'moved')
    repository.git('-C', 'lib', 'config', 'filter.evil.clean', `sh -c 'echo x >> ${ran}; cat'`)
    repository.git('-C', 'lib', 'config', 'core.fsmonitor', `echo x >> ${ran}; true`)
    repository.write('lib/lib.txt', 'changed\n')
    rmSync(ran, { force: true })
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
    // Where the submodule is, is taken along all the same.
    const linked = repository.git('-C', 'lib', 'rev-parse', 'HEAD').trim()
    expect(new Repository(cold.workspace).git('rev-parse', 'HEAD:lib').trim()).toBe(linked)
    await bench.projects.sweep()
    expect(bench.rooms.context.kernels.running()).toEqual([])
    expect(existsSync(ran)).toBe(false)
    // That is what trust is for.
    await bench.projects.list.trust(project, true)
    await until('its setup to run', () => existsSync(ran))
  })
})

test('trust that is taken back while a draft is set up: no kernel starts in it, and one that runs in a draft ends', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { setup: ['true'] })
    const claim = await bench.claim(project)
    const { room } = await bench.attach(claim.notebook_id)
    await until('the kernel', () => room.presentKernel !== null)
    await bench.projects.list.trust(project, false)
    await until('its end', () => room.presentKernel === null && room.slot.runtime !== 'launching')
    const next = await bench.claim(project)
    await bench.projects.list.trust(project, true)
    bench.steps.before = (name) => {
      if (name === 'setup') return bench.projects.list.trust(project, false)
    }
    const { room: second } = await bench.attach(next.notebook_id)
    await until(
      'the end of the start',
      () => project.record.trusted === false && second.slot.runtime !== 'launching',
    )
    expect(bench.steps.seen).toContain('setup')
    await expect(second.slot.want()).rejects.toMatchObject({ code: 'forbidden' })
    expect(second.presentKernel).toBeNull()
  }))

test('trust that is given while a draft is open sets that draft up and starts its kernel', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), { setup: ['echo made > made.txt'] }, false)
    const claim = await bench.claim(project)
    const { room } = await bench.attach(claim.notebook_id)
    expect(existsSync(join(claim.workspace, 'made.txt'))).toBe(false)
    await bench.projects.list.trust(project, true)
    await until('the kernel of the open draft', () => room.presentKernel !== null)
    expect(existsSync(join(claim.workspace, 'made.txt'))).toBe(true)
    expect(room.record.state).toBe('draft')
  }))
