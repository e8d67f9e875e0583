import { chmodSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { FileWatch } from '../../daemon/documents/file-watch.ts'
import { FileWitness } from '../../daemon/documents/file-witness.ts'
import { systemClock } from '../../protocol/clock.ts'

test('a file that nobody touched is told as it is; whatever is done to it, it is not', async () => {
  const folder = await realpath(mkdtempSync(join(tmpdir(), 'roomd-test-')))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const watch = new FileWatch(systemClock)
  onTestFinished(() => watch.dispose())
  const path = join(folder, 'x.ipynb')
  const moved = join(folder, 'y.ipynb')
  const anew = (): void => writeFileSync(path, 'one')
  const touches: (() => void)[] = [
    () => writeFileSync(path, 'two'),
    () => utimesSync(path, 1, 1),
    () => chmodSync(path, 0o400),
    () => rmSync(path),
    () => {
      renameSync(path, moved)
      symlinkSync(moved, path)
    },
  ]
  for (const touch of touches) {
    rmSync(path, { force: true })
    anew()
    const witness = await FileWitness.begin(watch, path)
    expect(await witness.untouched()).toMatchObject({ ino: expect.any(Number), writable: true })
    touch()
    expect(await witness.untouched()).toBeNull()
    witness.dispose()
  }
  const nobody = await FileWitness.begin(watch, join(folder, 'none.ipynb'))
  expect(await nobody.untouched()).toBeNull()
  nobody.dispose()
})
