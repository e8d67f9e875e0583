/** What somebody committed, or took away, in a workspace: it is kept when the workspace goes, and no other gets such a one. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { archiveRoom } from '../../daemon/projects/archive.ts'
import { LEASE_MS } from '../../daemon/projects/drafts.ts'
import { until } from '../support/until.ts'
import { withProjects } from './fixture.ts'
import { Repository } from './repository.ts'

test('commits of submodules are kept beside those that name them, and every stash', () =>
  withProjects(async (bench) => {
    const library = bench.repository({ 's.txt': 's\n' }, 'library')
    const repository = bench.repository()
    repository.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library.folder, 'lib')
    repository.commit({}, 'with a submodule')
    const claim = await bench.claim(await bench.add(repository))
    const { room, leave } = await bench.attach(claim.notebook_id)
    await bench.edit(room, '1')
    const inside = new Repository(join(claim.workspace, 'lib'))
    const made = inside.commit({ 's.txt': 'better\n' }, 'in the submodule')
    const work = new Repository(claim.workspace)
    work.commit({}, 'names it')
    for (const text of ['first\n', 'second\n']) {
      work.write('README.md', text)
      work.git('stash', '--quiet')
    }
    const stashed = work.git('rev-parse', 'stash@{0}', 'stash@{1}').trim().split('\n')
    leave()
    const kept = await archiveRoom(bench.projects.context, bench.projects.tier, room.id, true)
    library.git('fetch', '--quiet', join(kept ?? '', 'lib', 'branch.bundle'), 'HEAD')
    expect(library.git('show', `${made}:s.txt`)).toBe('better\n')
    const bundled = repository.git('bundle', 'list-heads', join(kept ?? '', 'branch.bundle'))
    for (const commit of stashed) expect(bundled).toContain(commit)
  }))

test('a draft in which somebody only committed goes when its lease is over, and the commits are kept', () =>
  withProjects(async (bench) => {
    const repository = bench.repository()
    const project = await bench.add(repository, {}, false)
    const claim = await bench.claim(project)
    const made = new Repository(claim.workspace).commit({ 'work.txt': 'done\n' }, 'work')
    bench.clock.advance(LEASE_MS)
    await until('it to be gone', () => bench.events.some((event) => event.type === 'draft_retired'))
    const [kept] = bench.projects.tier.keptOf(project.record.id)
    repository.git('fetch', '--quiet', join(kept?.path ?? '', 'branch.bundle'), claim.branch)
    expect(repository.git('show', `${made}:work.txt`)).toBe('done\n')
  }))

test('files that a daemon had moved when it died are told as kept by the next one', () =>
  withProjects(async (bench) => {
    const project = await bench.add(bench.repository(), {}, false)
    const claim = await bench.claim(project)
    const kept = join(bench.home.places.state, 'kept', claim.notebook_id)
    mkdirSync(kept, { recursive: true })
    writeFileSync(join(kept, 'mine.csv'), 'moved already')
    await bench.restart()
    expect(existsSync(claim.workspace)).toBe(false)
    expect(bench.projects.tier.keptOf(project.record.id)).toEqual([
      { notebook_id: claim.notebook_id, path: kept },
    ])
  }))

test('a draft goes back to the pool as it was given, and not with files taken away', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'README.md': 'hello\n', 'data.csv': '1\n' })
    const project = await bench.add(repository, {}, false)
    const [untouched, removed, unstaged] = [
      await bench.claim(project),
      await bench.claim(project),
      await bench.claim(project),
    ]
    new Repository(removed.workspace).git('rm', '--quiet', 'data.csv')
    rmSync(join(unstaged.workspace, 'data.csv'))
    project.record.own = { ...project.record.own, depth: 3 }
    bench.clock.advance(LEASE_MS)
    await until(
      'all to be settled',
      () => !bench.states().includes('draft') && bench.workspaces().length === 3,
    )
    await bench.projects.list.poolOf(project).settled()
    expect(existsSync(untouched.workspace)).toBe(true)
    expect(existsSync(removed.workspace) || existsSync(unstaged.workspace)).toBe(false)
  }))

test('a draft stays while a notebook is open that lies in its workspace; once nobody is there it goes', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({
      'n.ipynb': JSON.stringify({ cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 }),
    })
    const claim = await bench.claim(await bench.add(repository, {}, false))
    const { leave } = await bench.openFile(join(claim.workspace, 'n.ipynb'))
    bench.clock.advance(LEASE_MS)
    bench.clock.advance(LEASE_MS)
    expect(existsSync(claim.workspace)).toBe(true)
    leave()
    await until('it to be gone', () => {
      bench.clock.advance(LEASE_MS)
      return !existsSync(claim.workspace)
    })
  }))

test('a lease that ends while something of the room is being stored is followed by another', () =>
  withProjects(async (bench) => {
    const claim = await bench.claim(await bench.add(bench.repository(), {}, false))
    const { leave } = await bench.attach(claim.notebook_id)
    leave()
    // At once: that somebody left is not stored yet.
    bench.clock.advance(LEASE_MS)
    await until('it to be gone', () => {
      bench.clock.advance(LEASE_MS)
      return !existsSync(claim.workspace)
    })
  }))

test('repositories within the working copy are left out and said so, with commits or without; all else comes along', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ '.gitignore': 'ignored/\n' })
    new Repository(join(repository.folder, 'empty')).write('x.txt', 'x')
    new Repository(join(repository.folder, 'full')).commit({ 'y.txt': 'y' })
    new Repository(join(repository.folder, 'ignored')).commit({ 'z.txt': 'z' })
    repository.write('new.txt', 'new\n')
    const project = await bench.add(repository, {}, false)
    expect((await bench.claim(project)).uncommitted).toBe(3)
    const claim = await bench.claim(project, { settings: { include_uncommitted: true } })
    expect(claim.uncommitted).toBe(2)
    expect(claim.notes.join('\n')).toMatch(/^empty has a repository of its own.*\nfull has/)
    expect(readFileSync(join(claim.workspace, 'new.txt'), 'utf8')).toBe('new\n')
    expect(existsSync(join(claim.workspace, 'full'))).toBe(false)
  }))

test('a folder may be called whatever the system lets it be', () =>
  withProjects(async (bench) => {
    for (const name of ['two\nlines and a space ', `q"'\`$x #%41\\ 📓`]) {
      const repository = bench.repository({ 'a.txt': 'a' }, name)
      mkdirSync(join(repository.folder, 'data'))
      writeFileSync(join(repository.folder, 'data', 'd.csv'), '1')
      const project = await bench.add(repository, { data: ['data'] }, false)
      repository.commit({ 'b.txt': 'b' })
      const claim = await bench.claim(project)
      expect(existsSync(join(claim.workspace, 'b.txt'))).toBe(true)
      expect(claim.stale).toBeUndefined()
      expect(new Repository(claim.workspace).git('remote', 'get-url', 'origin')).toBe(
        `${repository.folder}\n`,
      )
    }
  }))
