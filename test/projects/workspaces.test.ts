/** Caches and workspaces, by git itself: what comes into a checkout, what is said when something cannot, and that nobody's folder is touched. */
import { execFileSync } from 'node:child_process'
import {
  createReadStream,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { LEASE_MS } from '../../daemon/projects/drafts.ts'
import { findSource } from '../../daemon/projects/source.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { needs } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { type Bench, withProjects } from './fixture.ts'
import { picture, Repository } from './repository.ts'

const cold = { skip_warm: true }

/** Serves a bare repository as files, which git calls the dumb protocol; `refuse`: asks for a password instead. */
async function served(
  folder: string,
  refuse: () => boolean = () => false,
): Promise<{ url: string; server: Server }> {
  const server = createServer((request, response) => {
    const file = join(folder, decodeURIComponent((request.url ?? '/').split('?')[0] ?? ''))
    if (refuse()) response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end()
    else if (existsSync(file) && statSync(file).isFile()) createReadStream(file).pipe(response.writeHead(200))
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/repo.git`, server }
}

function bareCopy(repository: Repository, folder: string): void {
  execFileSync('git', ['clone', '--quiet', '--bare', repository.folder, folder])
  execFileSync('git', ['update-server-info'], { cwd: folder })
}

async function failure(work: Promise<unknown>): Promise<RoomdError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (error instanceof RoomdError) return error
  throw new Error(`expected a refusal, got ${String(error)}`)
}

test('a workspace is a real checkout of the commit, on a branch of its own', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'src/a.py': 'a = 1\n', 'README.md': 'hello\n' })
    const project = await bench.add(repository)
    const { workspace, branch } = await bench.claim(project, cold)
    expect(readFileSync(join(workspace, 'src/a.py'), 'utf8')).toBe('a = 1\n')
    const git = (...args: string[]) => execFileSync('git', args, { cwd: workspace, encoding: 'utf8' }).trim()
    expect(git('rev-parse', 'HEAD')).toBe(repository.head())
    expect(git('branch', '--show-current')).toBe(branch)
    expect(branch).toMatch(/^roomd\/[0-9a-f]{8}$/)
    expect(git('config', 'user.email')).toBe('tester@example.org')
    expect(git('config', 'gc.auto')).toBe('0')
    expect(git('status', '--porcelain')).toBe('')
  }))

test('the user’s repository is bit for bit untouched by adding, claiming, refreshing, running, expiring, healing, a daemon’s death and removing', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': 'a\n', '.gitignore': 'data/\n' })
    repository.write('a.txt', 'changed\n')
    repository.write('new.txt', 'new\n')
    repository.write('data/big.csv', '1,2\n')
    let before = picture(repository.folder)
    const untouched = () => expect(picture(repository.folder)).toEqual(before)
    const project = await bench.add(repository, { depth: 1, data: ['data'], setup: ['echo made > made.txt'] })
    await bench.pooled(project)
    untouched()
    // Somebody commits: the pooled room is brought up to that.
    repository.git('commit', '--quiet', '--all', '-m', 'second')
    before = picture(repository.folder)
    const warm = await bench.claim(project, { force_fetch: true })
    expect(warm.claim).toBe('warm')
    expect(readFileSync(join(warm.workspace, 'a.txt'), 'utf8')).toBe('changed\n')
    const uncommitted = await bench.claim(project, { ...cold, settings: { include_uncommitted: true } })
    expect(uncommitted.uncommitted).toBe(0)
    const { room, leave } = await bench.attach(warm.notebook_id)
    await bench.run(room, 'require("node:fs").writeFileSync("out.txt", "x")')
    leave()
    bench.clock.advance(LEASE_MS)
    await until('the other draft to expire', () => !existsSync(uncommitted.workspace))
    await bench.projects.sweep()
    untouched()
    // A cache that is damaged is made anew, and a daemon that dies leaves nothing half done there either.
    rmSync(join(project.cache.folder, 'HEAD'))
    await bench.claim(project, cold)
    await bench.projects.list.poolOf(project).settled()
    await bench.restart()
    const [again] = bench.projects.list.all()
    if (!again) throw new Error('the project is gone')
    await bench.projects.list.remove(again)
    untouched()
  }))

test('results are fetched as a branch with the command that show prints; the next room does not start from them', () =>
  withProjects(async (bench) => {
    const repository = bench.repository()
    const project = await bench.add(repository)
    const { workspace, branch, notebook_id } = await bench.claim(project, cold)
    const { room } = await bench.attach(notebook_id)
    await bench.edit(room, '1')
    writeFileSync(join(workspace, 'result.txt'), 'done\n')
    execFileSync('git', ['add', '--all'], { cwd: workspace })
    execFileSync('git', ['commit', '--quiet', '-m', 'result'], { cwd: workspace })
    const shown = (await bench.rooms.request(
      'get_project',
      { project: project.record.name },
      { identity: {} as never, signal: new AbortController().signal },
    )) as { rooms: { fetch: string }[] }
    const command = shown.rooms[0]?.fetch ?? ''
    execFileSync('/bin/sh', ['-c', command], { stdio: 'pipe' })
    expect(repository.git('show', `${branch}:result.txt`)).toBe('done\n')
    // Another room, also one that somebody in this room claims, starts from the project’s commit and not from this room’s.
    const next = await bench.claim(project, { ...cold, exclude: [notebook_id] })
    expect(existsSync(join(next.workspace, 'result.txt'))).toBe(false)
    const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: next.workspace, encoding: 'utf8' })
    expect(head.trim()).toBe(repository.head())
    // Nothing is pushed into the user's folder, whoever tries.
    expect(() => execFileSync('git', ['push', 'origin', branch], { cwd: workspace, stdio: 'pipe' })).toThrow()
  }))

test('uncommitted files are counted, and taken along when that is asked for', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': 'a\n', 'b.txt': 'b\n', '.gitignore': 'ignored\n' })
    const project = await bench.add(repository)
    expect((await bench.claim(project, cold)).uncommitted).toBe(0)
    repository.write('a.txt', 'changed\n')
    repository.remove('b.txt')
    repository.write('new/c.txt', 'c\n')
    repository.write('ignored', 'i\n')
    const without = await bench.claim(project, cold)
    expect(without.uncommitted).toBe(3)
    expect(readFileSync(join(without.workspace, 'a.txt'), 'utf8')).toBe('a\n')
    const taken = await bench.claim(project, { ...cold, settings: { include_uncommitted: true } })
    expect(taken.uncommitted).toBe(0)
    expect(readFileSync(join(taken.workspace, 'a.txt'), 'utf8')).toBe('changed\n')
    expect(readFileSync(join(taken.workspace, 'new/c.txt'), 'utf8')).toBe('c\n')
    expect(existsSync(join(taken.workspace, 'b.txt'))).toBe(false)
    expect(existsSync(join(taken.workspace, 'ignored'))).toBe(false)
  }))

test('data that git ignores is in the workspace, closed for writing, and not new to git', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ '.gitignore': 'data/\n' })
    repository.write('data/deep/x.csv', '1\n')
    const outside = join(bench.home.work, 'outside.csv')
    writeFileSync(outside, '2\n')
    const project = await bench.add(repository, { data: ['data', outside, 'missing.csv'] })
    const { workspace, notes } = await bench.claim(project, cold)
    expect(readFileSync(join(workspace, 'data/deep/x.csv'), 'utf8')).toBe('1\n')
    expect(readFileSync(join(workspace, 'outside.csv'), 'utf8')).toBe('2\n')
    expect(statSync(join(workspace, 'data')).mode & 0o222).toBe(0)
    expect(execFileSync('git', ['status', '--porcelain'], { cwd: workspace, encoding: 'utf8' })).toBe('')
    expect(notes.join()).toContain('missing.csv')
    // Where the file system shares no blocks it is the original, and said so.
    const linked = lstatSync(join(workspace, 'outside.csv')).isSymbolicLink()
    expect(notes.some((note) => note.includes(`changes ${outside}`))).toBe(linked)
    // A folder that is closed for writing goes all the same.
    await bench.projects.list.remove(project)
    expect(existsSync(workspace)).toBe(false)
    expect(readFileSync(join(repository.folder, 'data/deep/x.csv'), 'utf8')).toBe('1\n')
  }))

test('a repository without a commit is refused with what to do', () =>
  withProjects(async (bench) => {
    const empty = new Repository(join(bench.home.work, 'empty'))
    const project = await bench.add(empty)
    expect(project.record.status).toBe('error')
    expect(project.record.reason).toContain('no commits yet')
    empty.commit({ 'a.txt': 'a' })
    await bench.projects.list.clone(project)
    expect(project.record.status).toBe('ready')
  }))

test('a detached HEAD and a linked working tree are what rooms start from', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': '1\n' })
    const first = repository.head()
    repository.commit({ 'a.txt': '2\n' })
    repository.git('checkout', '--quiet', '--detach', first)
    const project = await bench.add(repository)
    expect(readFileSync(join((await bench.claim(project, cold)).workspace, 'a.txt'), 'utf8')).toBe('1\n')
    const tree = join(bench.home.work, 'tree')
    repository.git('worktree', 'add', '--quiet', '-b', 'side', tree, 'main')
    // It shares what is not to be looked at with the main one.
    repository.write('.git/info/exclude', 'left-out.txt\n')
    writeFileSync(join(tree, 'left-out.txt'), '')
    writeFileSync(join(tree, 'new.txt'), '')
    const linked = await bench.add(tree)
    const claim = await bench.claim(linked, cold)
    expect(readFileSync(join(claim.workspace, 'a.txt'), 'utf8')).toBe('2\n')
    expect(claim.uncommitted).toBe(1)
  }))

test('while the working copy is away rooms are made from what is known, and are told to be old', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': '1\n' })
    const project = await bench.add(repository)
    renameSync(repository.folder, `${repository.folder}-away`)
    const claim = await bench.claim(project, cold)
    expect(readFileSync(join(claim.workspace, 'a.txt'), 'utf8')).toBe('1\n')
    expect(claim.stale).toContain('could not be fetched')
    expect(claim.uncommitted).toBe(0)
  }))

test('a shallow clone of the user’s can be a project', () =>
  withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': '1\n' })
    repository.commit({ 'a.txt': '2\n' })
    const shallow = join(bench.home.work, 'shallow')
    execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${repository.folder}`, shallow])
    const project = await bench.add(shallow)
    expect(project.record.reason).toBeNull()
    expect(readFileSync(join((await bench.claim(project, cold)).workspace, 'a.txt'), 'utf8')).toBe('2\n')
  }))

test('submodules come from the user’s checkout once the project is trusted, and are left out before', () =>
  withProjects(async (bench) => {
    const library = bench.repository({ 'lib.txt': 'library\n' }, 'library')
    const repository = bench.repository({ 'a.txt': 'a\n' })
    repository.git(
      '-c',
      'protocol.file.allow=always',
      'submodule',
      '--quiet',
      'add',
      library.folder,
      'libs/one',
    )
    repository.commit({}, 'with a submodule')
    const project = await bench.add(repository, {}, false)
    const before = await bench.claim(project, cold)
    expect(existsSync(join(before.workspace, 'libs/one/lib.txt'))).toBe(false)
    expect(before.notes.join()).toContain('submodules are left out')
    await bench.projects.list.trust(project, true)
    const after = await bench.claim(project, cold)
    expect(after.notes).toEqual([])
    expect(readFileSync(join(after.workspace, 'libs/one/lib.txt'), 'utf8')).toBe('library\n')
  }))

test('files kept in Git LFS are said to be pointers where git-lfs is not installed, and how many', () =>
  withProjects(async (bench) => {
    // A machine with git and nothing else.
    const programs = join(bench.home.work, 'programs')
    mkdirSync(programs)
    symlinkSync(
      execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim(),
      join(programs, 'git'),
    )
    bench.home.env.PATH = programs
    const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n'
    const repository = bench.repository({
      'deep/er/.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n',
      'deep/er/x.bin': pointer,
      'deep/er/y.bin': pointer,
      'x.bin': 'plain\n',
    })
    const claim = await bench.claim(await bench.add(repository), cold)
    expect(claim.notes).toEqual([
      `2 files are Git LFS pointers, not their content: git-lfs is not installed; install it, then run "git lfs pull" in ${claim.workspace}`,
    ])
    expect(readFileSync(join(claim.workspace, 'deep/er/x.bin'), 'utf8')).toBe(pointer)
  }))

test('files kept in Git LFS have their content before anything is set up, also after a move; one that nobody has is said', (context) => {
  needs(context, 'git-lfs')
  return withProjects(async (bench) => {
    const repository = bench.repository({ 'a.txt': 'a\n' })
    repository.git('lfs', 'install', '--local')
    repository.commit({ '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n', 'x.bin': 'one\n' })
    expect(repository.git('show', 'HEAD:x.bin')).toContain('git-lfs')
    const setup = ['cat x.bin > seen-by-setup.txt']
    const project = await bench.add(repository, { depth: 1, setup })
    await bench.pooled(project)
    const [pooled] = bench.projects.list.poolOf(project).pooled
    const folder = pooled?.workspace.folder ?? ''
    expect(readFileSync(join(folder, 'seen-by-setup.txt'), 'utf8')).toBe('one\n')
    repository.commit({ 'x.bin': 'two\n' })
    const claim = await bench.claim(project)
    expect(claim).toMatchObject({ claim: 'warm', workspace: folder, notes: [] })
    expect(readFileSync(join(folder, 'x.bin'), 'utf8')).toBe('two\n')
    // Its objects are gone, and there is no remote that had them.
    rmSync(join(repository.folder, '.git', 'lfs'), { recursive: true })
    const without = await bench.claim(project, cold)
    expect(without.notes.join()).toMatch(/^1 file is a Git LFS pointer, not its content: /)
  })
})

test('a remote project is cloned, is fresh for a minute, and its remote stays without credentials', () =>
  withProjects(async (bench) => {
    const origin = bench.repository({ 'a.txt': '1\n' }, 'origin')
    const bare = join(bench.home.work, 'repo.git')
    bareCopy(origin, bare)
    let refused = false
    const { url, server } = await served(bench.home.work, () => refused)
    try {
      const project = await bench.add(url.replace('http://', 'http://user:secret@'))
      expect(project.record.reason).toBeNull()
      expect(project.record.key).toBe(url.replace(/\.git$/, ''))
      const first = await bench.claim(project, cold)
      expect(readFileSync(join(first.workspace, 'a.txt'), 'utf8')).toBe('1\n')
      expect(readFileSync(join(first.workspace, '.git/config'), 'utf8')).not.toContain('secret')
      // Somebody pushes.
      origin.commit({ 'a.txt': '2\n' })
      execFileSync('git', ['fetch', '--quiet', origin.folder, 'main:main'], { cwd: bare })
      execFileSync('git', ['update-server-info'], { cwd: bare })
      const fresh = await bench.claim(project, cold)
      expect(readFileSync(join(fresh.workspace, 'a.txt'), 'utf8')).toBe('1\n')
      const forced = await bench.claim(project, { ...cold, force_fetch: true })
      expect(readFileSync(join(forced.workspace, 'a.txt'), 'utf8')).toBe('2\n')
      // The way there is gone: the claim is good and says that it may be old.
      refused = true
      bench.clock.advance(61_000)
      const stale = await bench.claim(project, cold)
      expect(stale.stale).toContain('refused access')
      expect(readFileSync(join(stale.workspace, 'a.txt'), 'utf8')).toBe('2\n')
    } finally {
      server.close()
    }
  }))

test.each([
  ['no network', 'http://127.0.0.1:1/repo.git', 'no_network'],
  ['no such host', 'https://nowhere.invalid/repo.git', 'no_network'],
])('a remote that cannot be reached: %s', (_what, address, expected) =>
  withProjects(async (bench) => {
    const project = await bench.add(address)
    expect(project.record.status).toBe('error')
    const error = await failure(project.fetch({ force: true }))
    expect(error.code).toBe('git_failed')
    expect((error.detail as { failure: string }).failure).toBe(expected)
    expect(error.retryable).toBe(true)
  }),
)

test('a remote that wants a password fails at once and asks nobody', () =>
  withProjects(async (bench) => {
    mkdirSync(join(bench.home.work, 'served'))
    const { url, server } = await served(join(bench.home.work, 'served'), () => true)
    try {
      const project = await bench.add(url)
      expect(project.record.status).toBe('error')
      expect(project.record.reason).toContain('refused access')
    } finally {
      server.close()
    }
  }))

test('what is no repository is refused, and what is named twice is one project', () =>
  withProjects(async (bench) => {
    const { git } = bench.projects.context
    expect((await failure(findSource(git, join(bench.home.work, 'nowhere')))).code).toBe('not_found')
    expect((await failure(findSource(git, bench.home.work))).message).toContain('no git repository')
    expect((await failure(findSource(git, 'relative/path'))).code).toBe('invalid_argument')
    const repository = bench.repository({ 'sub/a.txt': 'a' })
    const top = await findSource(git, repository.folder)
    expect((await findSource(git, join(repository.folder, 'sub'))).key).toBe(top.key)
    const keys = await Promise.all(
      ['https://Example.org/a/b.git', 'https://u:p@example.org/a/b', 'https://example.org/a/b/'].map((url) =>
        findSource(git, url),
      ),
    )
    expect(new Set(keys.map(({ key }) => key)).size).toBe(1)
  }))

async function withCache(bench: Bench) {
  const repository = bench.repository({ 'a.txt': '1\n' })
  const project = await bench.add(repository)
  return { repository, project, cache: project.cache.folder }
}

const damages: [string, (cache: string) => void][] = [
  ['missing', (cache) => rmSync(cache, { recursive: true })],
  [
    'empty',
    (cache) => {
      rmSync(cache, { recursive: true })
      mkdirSync(cache)
    },
  ],
  ['without a HEAD', (cache) => rmSync(join(cache, 'HEAD'))],
  [
    'with broken objects',
    (cache) => {
      rmSync(join(cache, 'objects'), { recursive: true })
      mkdirSync(join(cache, 'objects'))
    },
  ],
]

test.each(damages)('a cache that is %s is made anew at the next claim', (_what, damage) =>
  withProjects(async (bench) => {
    const { repository, project, cache } = await withCache(bench)
    damage(cache)
    repository.commit({ 'a.txt': '2\n' })
    const { workspace } = await bench.claim(project, cold)
    expect(readFileSync(join(workspace, 'a.txt'), 'utf8')).toBe('2\n')
    // The same where nothing has moved, so that nothing would be fetched.
    damage(cache)
    const again = await bench.claim(project, cold)
    expect(readFileSync(join(again.workspace, 'a.txt'), 'utf8')).toBe('2\n')
  }),
)

test('the cache advances, and a clone sees it', () =>
  withProjects(async (bench) => {
    const { repository, project } = await withCache(bench)
    for (const text of ['2\n', '3\n']) {
      const commit = repository.commit({ 'a.txt': text })
      expect((await project.fetch({})).commit).toBe(commit)
      const { workspace } = await bench.claim(project, cold)
      expect(readFileSync(join(workspace, 'a.txt'), 'utf8')).toBe(text)
    }
    // History that was rewritten is followed too.
    repository.git('reset', '--quiet', '--hard', 'HEAD~2')
    expect((await project.fetch({})).commit).toBe(repository.head())
  }))
