import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { SendLog } from '../../daemon/kernel-host/send-log.ts'
import { smallDisk } from '../support/small-disk.ts'

const request = (id: string) => ({ id, channel: 'shell' as const, msgType: 'execute_request' })

test('what was sent and what was settled is known to the next host', () => {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-sends-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'sends.log')
  const log = new SendLog(path)
  log.sending(request('a'))
  log.sending(request('b'))
  log.settled('a')
  log.close()
  const next = new SendLog(path)
  expect(next.has('a')).toBe(true)
  expect(next.open().map(({ id }) => id)).toEqual(['b'])
  next.close()
})

test('a full disk: an end waits for room, a send is refused whole, and no half line is left', (context) => {
  const disk = smallDisk(1)
  if (disk === null) return context.skip('mounting a small tmpfs needs root')
  const path = join(disk.path, 'sends.log')
  const log = new SendLog(path)
  log.sending(request('a'))
  disk.fill()
  // Up to the end of the page that the file has already.
  const sent = ['a']
  let refused: unknown = null
  for (let n = 0; refused === null; n++) {
    try {
      log.sending(request(`filler ${n}`))
      sent.push(`filler ${n}`)
    } catch (error) {
      refused = error
    }
  }
  expect(readFileSync(path, 'utf8').endsWith('}\n')).toBe(true)
  for (const id of sent) log.settled(id)
  expect(log.open()).toEqual([])
  disk.free()
  log.sending(request('last'))
  log.close()
  const next = new SendLog(path)
  expect(next.open().map(({ id }) => id)).toEqual(['last'])
  expect(sent.every((id) => next.has(id))).toBe(true)
  next.close()
})
