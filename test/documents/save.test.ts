import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { hashBytes, readSource, saveFile } from '../../daemon/documents/save.ts'
import { bytes } from './fixtures.ts'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'roomd-save-'))
  onTestFinished(() => {
    rmSync(made, { recursive: true, force: true })
  })
  return made
}

const read = (path: string): string => readFileSync(path, 'utf8')
const old = bytes('old')
const now = bytes('new')

describe('saving a file', () => {
  it('replaces it, keeps its mode, and leaves nothing else in the folder', async () => {
    const dir = folder()
    const path = join(dir, 'a.ipynb')
    writeFileSync(path, old)
    chmodSync(path, 0o640)
    const saved = await saveFile({ path, bytes: now, expectedHash: hashBytes(old) })
    expect(saved).toEqual({ path, hash: hashBytes(now) })
    expect(read(path)).toBe('new')
    expect(statSync(path).mode & 0o777).toBe(0o640)
    expect(readdirSync(dir)).toEqual(['a.ipynb'])
  })

  it('writes to where a symlink points, and keeps the link', async () => {
    const dir = folder()
    mkdirSync(join(dir, 'real'))
    writeFileSync(join(dir, 'real', 'a.ipynb'), old)
    symlinkSync(join('real', 'a.ipynb'), join(dir, 'link.ipynb'))
    const saved = await saveFile({ path: join(dir, 'link.ipynb'), bytes: now, expectedHash: hashBytes(old) })
    expect(saved.path).toBe(join(dir, 'real', 'a.ipynb'))
    expect(lstatSync(join(dir, 'link.ipynb')).isSymbolicLink()).toBe(true)
    expect(readlinkSync(join(dir, 'link.ipynb'))).toBe(join('real', 'a.ipynb'))
    expect(read(join(dir, 'real', 'a.ipynb'))).toBe('new')
  })

  it('makes a new file where none is, and refuses to where one is', async () => {
    const path = join(folder(), 'a.ipynb')
    await saveFile({ path, bytes: now, expectedHash: null })
    expect(read(path)).toBe('new')
    await expect(saveFile({ path, bytes: old, expectedHash: null })).rejects.toMatchObject({
      code: 'source_conflict',
      message: expect.stringContaining('exists already'),
    })
    expect(read(path)).toBe('new')
  })

  it('refuses when the bytes on disk are not those last seen, or are gone', async () => {
    const dir = folder()
    const path = join(dir, 'a.ipynb')
    writeFileSync(path, 'changed by someone')
    const request = { path, bytes: now, expectedHash: hashBytes(old) }
    await expect(saveFile(request)).rejects.toMatchObject({
      code: 'source_conflict',
      next: { tool: 'reconcile_source', arguments: { keep: 'both' } },
    })
    expect(read(path)).toBe('changed by someone')
    rmSync(path)
    await expect(saveFile(request)).rejects.toMatchObject({
      code: 'source_conflict',
      message: expect.stringContaining('is gone'),
    })
    expect(readdirSync(dir)).toEqual([])
  })

  it('names path and cause when the folder is missing or the path is a folder', async () => {
    const dir = folder()
    const missing = join(dir, 'no', 'a.ipynb')
    await expect(saveFile({ path: missing, bytes: now, expectedHash: null })).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining(missing),
      detail: { path: missing, code: 'ENOENT' },
    })
    await expect(saveFile({ path: dir, bytes: now, expectedHash: null })).rejects.toMatchObject({
      code: 'invalid_argument',
    })
    await expect(readSource(missing)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('is forbidden in a folder without permission, and leaves the file', async (test) => {
    const dir = folder()
    const path = join(dir, 'a.ipynb')
    writeFileSync(path, old)
    if (process.getuid?.() === 0) {
      // Root may write everywhere but into what is marked immutable.
      if (spawnSync('chattr', ['+i', dir]).status !== 0) return test.skip('root may write everywhere here')
      onTestFinished(() => {
        spawnSync('chattr', ['-i', dir])
      })
    } else {
      chmodSync(dir, 0o500)
      onTestFinished(() => chmodSync(dir, 0o700))
    }
    await expect(saveFile({ path, bytes: now, expectedHash: hashBytes(old) })).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining(path),
    })
    expect(read(path)).toBe('old')
  })

  const mounted = (options: string, prepare: (dir: string) => void = () => {}): string | null => {
    if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
    const dir = folder()
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', dir]).status !== 0) return null
    onTestFinished(() => {
      spawnSync('umount', ['-l', dir])
    })
    prepare(dir)
    if (options !== '') spawnSync('mount', ['-o', `remount,${options}`, dir])
    return dir
  }

  it('on a full disk fails as storage_full and leaves the old file and no temporary one', async (test) => {
    const dir = mounted('')
    if (dir === null) return test.skip('mounting a small tmpfs needs root')
    const path = join(dir, 'a.ipynb')
    writeFileSync(path, old)
    await expect(
      saveFile({ path, bytes: new Uint8Array(2_000_000), expectedHash: hashBytes(old) }),
    ).rejects.toMatchObject({ code: 'storage_full', message: expect.stringContaining(path) })
    expect(read(path)).toBe('old')
    expect(readdirSync(dir)).toEqual(['a.ipynb'])
  })

  it('on a read-only file system is forbidden', async (test) => {
    const dir = mounted('ro', (made) => writeFileSync(join(made, 'a.ipynb'), old))
    if (dir === null) return test.skip('mounting a small tmpfs needs root')
    const path = join(dir, 'a.ipynb')
    await expect(saveFile({ path, bytes: now, expectedHash: hashBytes(old) })).rejects.toMatchObject({
      code: 'forbidden',
      detail: { path, code: 'EROFS' },
    })
    expect(read(path)).toBe('old')
  })
})
