/** A cache follows the branch that is checked out in a working copy without a fetch where it can, and ends up where a fetch would. */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { Deputies, type DeputyEnd } from '../../daemon/projects/deputies.ts'
import { Cache } from '../../daemon/projects/git/cache.ts'
import { Git, type GitOptions } from '../../daemon/projects/git/git.ts'
import { findSource } from '../../daemon/projects/source.ts'
import { systemClock } from '../../protocol/clock.ts'
import { picture, Repository } from './repository.ts'

class WatchedGit extends Git {
  readonly seen: string[] = []
  override end(args: readonly string[], options: GitOptions): Promise<DeputyEnd> {
    this.seen.push(args[0] ?? '')
    return super.end(args, options)
  }
}

interface Given {
  readonly folder: string
  readonly repository: Repository
  readonly cache: Cache
  readonly git: WatchedGit
  /** As a claim brings the cache up: followed, or fetched. */
  bring(): Promise<string>
  inCache(...args: string[]): string
}

async function withCache(
  use: (given: Given) => Promise<void>,
  { init = [] }: { init?: readonly string[] } = {},
): Promise<void> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-following-')))
  const deputies = new Deputies(join(folder, 'deputies'))
  try {
    const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', HOME: folder }
    const git = new WatchedGit(deputies, async () => env)
    const repository = new Repository(join(folder, 'project'), init)
    repository.commit({ 'a.txt': 'one\n', 'deep/er/b.txt': 'two\n', 'roomd.json': '{}' }, 'first')
    const { source } = await findSource(git, repository.folder)
    const cache = new Cache(git, source, join(folder, 'cache.git'), systemClock)
    await cache.fetch()
    git.seen.length = 0
    await use({
      folder,
      repository,
      cache,
      git,
      bring: async () => (await cache.follow()) ?? (await cache.fetch()),
      inCache: (...args) => execFileSync('git', ['-C', cache.folder, ...args], { env, encoding: 'utf8' }),
    })
  } finally {
    deputies.dispose()
    rmSync(folder, { recursive: true, force: true })
  }
}

test('new commits, a merge and a removal arrive whole, with their branch, without a fetch and without a trace in the working copy', () =>
  withCache(async ({ repository, cache, git, bring, inCache }) => {
    const from = repository.head()
    repository.git('checkout', '--quiet', '-b', 'side')
    repository.commit({ 'side.txt': 'side\n' }, 'side')
    repository.git('checkout', '--quiet', 'main')
    repository.remove('deep')
    repository.commit({ 'a.txt': 'three\n' }, 'main')
    repository.git('merge', '--quiet', '--no-edit', 'side')
    const to = repository.head()
    const before = picture(repository.folder)
    expect(await bring()).toBe(to)
    expect(picture(repository.folder)).toEqual(before)
    expect(git.seen.sort()).toEqual(['diff-tree', 'rev-list'])
    // Everything that it is made of is there.
    expect(inCache('archive', 'refs/roomd/tip')).toContain('side.txt')
    expect(inCache('rev-parse', 'refs/roomd/tip', 'refs/heads/main').trim().split('\n')).toEqual([to, to])
    expect(cache.advanceFrom(from, to)?.paths.toSorted()).toEqual(['a.txt', 'deep/er/b.txt', 'side.txt'])
    expect(cache.advanceFrom(to, from)).toBeNull()
    // Another branch is for the next fetch.
    expect(cache.partly).toBe(true)
    await cache.fetch()
    expect(cache.partly).toBe(false)
    expect(inCache('rev-parse', 'refs/heads/side').trim()).toBe(repository.git('rev-parse', 'side').trim())
  }))

test('a branch that was rewritten, and a HEAD on no branch, are followed', () =>
  withCache(async ({ repository, git, bring, inCache }) => {
    repository.write('a.txt', 'amended\n')
    repository.git('commit', '--quiet', '--all', '--amend', '-m', 'amended')
    expect(await bring()).toBe(repository.head())
    expect(inCache('show', 'refs/roomd/tip:a.txt')).toBe('amended\n')
    const amended = repository.head()
    repository.git('checkout', '--quiet', '--detach')
    const detached = repository.commit({ 'c.txt': 'c\n' }, 'detached')
    expect(await bring()).toBe(detached)
    expect(inCache('rev-parse', 'refs/heads/main').trim()).toBe(amended)
    expect(git.seen).not.toContain('fetch')
  }))

test('what is packed, shallow or borrowed is fetched', () =>
  withCache(async ({ folder, repository, git, bring, inCache }) => {
    const packed = repository.commit({ 'a.txt': 'packed\n' }, 'packed')
    repository.git('gc', '--quiet')
    expect(await bring()).toBe(packed)
    expect(git.seen).toContain('fetch')
    git.seen.length = 0
    writeFileSync(join(repository.folder, '.git', 'objects', 'info', 'alternates'), `${folder}/elsewhere\n`)
    const borrowing = repository.commit({ 'a.txt': 'borrowing\n' }, 'borrowing')
    expect(await bring()).toBe(borrowing)
    expect(git.seen).toEqual(['fetch'])
    expect(inCache('show', 'refs/roomd/tip:a.txt')).toBe('borrowing\n')
  }))

test('an object that is not what its name says is not taken', () =>
  withCache(async ({ repository, cache, inCache }) => {
    const before = repository.head()
    repository.commit({ 'a.txt': 'good\n' }, 'good')
    const blob = repository.git('rev-parse', 'HEAD:a.txt').trim()
    const other = repository.git('rev-parse', `${before}:a.txt`).trim()
    const file = (name: string) => join(repository.folder, '.git', 'objects', name.slice(0, 2), name.slice(2))
    chmodSync(file(blob), 0o644)
    execFileSync('cp', [file(other), file(blob)])
    expect(await cache.follow()).toBeNull()
    expect(inCache('rev-parse', 'refs/roomd/tip').trim()).toBe(before)
    // Nor by a fetch, which looks whether it is the cache that is damaged: what there was is still there.
    await expect(cache.fetch()).rejects.toMatchObject({ code: 'git_failed' })
    expect(inCache('rev-parse', 'refs/roomd/tip').trim()).toBe(before)
  }))

test('a lock that a killed git left in the way, half of a pack, and a branch where another’s folder is, are for a fetch', () =>
  withCache(async ({ repository, cache, inCache, bring }) => {
    writeFileSync(join(cache.folder, 'refs', 'roomd', 'tip.lock'), '')
    repository.commit({ 'a.txt': 'locked\n' }, 'locked')
    const pack = join(cache.folder, 'objects', 'pack', 'tmp_pack_a1b2c3')
    mkdirSync(dirname(pack), { recursive: true })
    writeFileSync(pack, 'half of one')
    expect(await cache.follow()).toBeNull()
    expect(await cache.fetch()).toBe(repository.head())
    expect(existsSync(pack)).toBe(false)
    repository.git('branch', '-m', 'main', 'topic')
    expect(await bring()).toBe(repository.head())
    repository.git('branch', '-m', 'topic', 'topic/one')
    const moved = repository.commit({ 'a.txt': 'moved\n' }, 'moved')
    expect(await cache.follow()).toBeNull()
    expect(await cache.fetch()).toBe(moved)
    expect(inCache('rev-parse', 'refs/heads/topic/one').trim()).toBe(moved)
  }))

test('objects that are named by SHA-256 are fetched and followed; so is a source that is made anew with other names', () =>
  withCache(
    async ({ repository, bring, inCache, git }) => {
      expect(await bring()).toHaveLength(64)
      const moved = repository.commit({ 'a.txt': 'moved\n' }, 'moved')
      git.seen.length = 0
      expect(await bring()).toBe(moved)
      expect(git.seen).not.toContain('fetch')
      expect(inCache('show', 'refs/roomd/tip:a.txt')).toBe('moved\n')
      repository.remove('.git')
      repository.git('init', '--quiet', '--initial-branch=main')
      const anew = repository.commit({ 'a.txt': 'anew\n' }, 'anew')
      expect(await bring()).toBe(anew)
      expect(inCache('show', 'refs/roomd/tip:a.txt')).toBe('anew\n')
    },
    { init: ['--object-format=sha256'] },
  ))
