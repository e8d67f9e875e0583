/** Which files of a workspace are a user's, and that each of them arrives whole where it is kept. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { keepUserFiles, userFiles } from '../../daemon/projects/kept-files.ts'
import { markPrepared } from '../../daemon/projects/prepared.ts'

async function withWorkspace(
  use: (given: { folder: string; kept: string; put(path: string, text: string): void }) => Promise<void>,
): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), 'roomd-kept-'))
  const folder = join(home, 'workspace')
  try {
    await use({
      folder,
      kept: join(home, 'kept'),
      put(path, text) {
        mkdirSync(dirname(join(folder, path)), { recursive: true })
        writeFileSync(join(folder, path), text)
      },
    })
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}

test('what is written right before the mark is ours, right behind it the user’s, however coarse the clock of the file system', () =>
  withWorkspace(async ({ folder, put }) => {
    for (let n = 0; n < 30; n++) {
      put('ours.txt', String(n))
      await markPrepared(folder)
      put('theirs.txt', String(n))
      expect(await userFiles(folder)).toEqual(['theirs.txt'])
    }
  }))

test('what somebody had put there before the mark was moved stays his', () =>
  withWorkspace(async ({ folder, put }) => {
    await markPrepared(folder)
    put('first.txt', '1')
    put('made/by/setup.txt', '1')
    await markPrepared(folder, ['first.txt'])
    put('second.txt', '2')
    await markPrepared(folder, ['second.txt'])
    expect((await userFiles(folder)).sort()).toEqual(['first.txt', 'second.txt'])
  }))

test('a repository of his own is kept with its commits; pipes hold nothing up; no file takes another’s place', () =>
  withWorkspace(async ({ folder, kept, put }) => {
    await markPrepared(folder)
    put('mine/.git/HEAD', 'ref: refs/heads/main\n')
    put('module/.git', 'gitdir: ../.git/modules/module\n')
    put('branch.bundle', 'a file')
    execFileSync('mkfifo', [join(folder, 'pipe')])
    mkdirSync(kept)
    writeFileSync(join(kept, 'branch.bundle'), 'commits')
    await keepUserFiles(folder, kept)
    expect(readFileSync(join(kept, 'branch.bundle'), 'utf8')).toBe('commits')
    expect(readFileSync(join(kept, 'branch.bundle.file'), 'utf8')).toBe('a file')
    expect(readFileSync(join(kept, 'mine', '.git', 'HEAD'), 'utf8')).toContain('main')
    expect(await userFiles(folder)).toEqual([])
  }))
