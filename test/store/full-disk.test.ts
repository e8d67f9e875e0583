import { spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { RoomdError } from '../../protocol/errors.ts'
import { openTestStore, seqs, temporaryFolder } from './opened.ts'
import { addRoom, addUpdate } from './statements.ts'

/** A file system of its own of 4 MiB, unmounted after the test; null where that is not allowed. */
function smallDisk(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const folder = temporaryFolder()
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', folder]).status !== 0) return null
  onTestFinished(() => {
    spawnSync('umount', ['-l', folder])
  })
  return folder
}

describe('a full disk', () => {
  it('fails what does not fit with storage_full, loses nothing that was acknowledged, and writes again when there is room', async (test) => {
    const folder = smallDisk()
    if (folder === null) return test.skip('mounting a small tmpfs needs root')
    const ballast = join(folder, 'ballast')
    writeFileSync(ballast, new Uint8Array(2 * 1024 * 1024))
    const store = await openTestStore(join(folder, 'roomd.db'))
    await store.write([addRoom()])
    const kept: number[] = []
    let failure: RoomdError | null = null
    for (let seq = 1; seq < 200 && failure === null; seq++) {
      try {
        await store.write([addUpdate(seq, new Uint8Array(50_000))])
        kept.push(seq)
      } catch (thrown) {
        failure = thrown as RoomdError
      }
    }
    expect(failure).toMatchObject({ code: 'storage_full', retryable: true })
    expect(failure?.message).toContain('free some space')
    expect(store.health()).toMatchObject({
      state: 'failing',
      reason: expect.stringContaining('free some space'),
    })
    expect(seqs(store)).toEqual(kept)
    expect(kept.length).toBeGreaterThan(0)
    rmSync(ballast)
    await store.write([addUpdate(1000)])
    expect(seqs(store)).toEqual([...kept, 1000])
    expect(store.health().state).toBe('ok')
    await store.close()
    const again = await openTestStore(join(folder, 'roomd.db'))
    expect(again.health().state).toBe('ok')
    expect(seqs(again)).toEqual([...kept, 1000])
  })
})
