/** Kernels that the store does not know: ended when the store is whole, left alone when a recovery lost rows of it. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { kernelFolder } from '../../daemon/kernel-host/folder.ts'
import { identify } from '../../daemon/kernel-host/process-identity.ts'
import { endUnknown } from '../../daemon/kernels/adoption.ts'
import { kernelPlaces } from '../../daemon/kernels/kernel-places.ts'
import { KernelId } from '../../protocol/ids.ts'
import { withHome } from '../support/home.ts'
import { alive, gone } from '../support/processes.ts'

test('a living kernel of no known room outlives a recovery with holes, and nothing else', () =>
  withHome(async (home) => {
    const id = KernelId.parse(randomUUID())
    const host = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
      env: home.env,
      stdio: 'ignore',
    })
    const pid = host.pid ?? 0
    const { folder } = kernelPlaces(home.places, id)
    mkdirSync(folder, { recursive: true })
    const record = { nonce: 'n', host: identify(pid), kernel: null, socket: '/s', version: '0' }
    writeFileSync(kernelFolder(folder).host, JSON.stringify(record))
    const said: string[] = []
    const look = (spare: boolean) =>
      endUnknown(
        home.places,
        new Set(),
        spare,
        () => {},
        (message) => said.push(message),
      )

    look(true)
    expect(said).toEqual([expect.stringContaining('left alone')])
    expect(alive(pid)).toBe(true)
    expect(existsSync(folder)).toBe(true)

    look(false)
    await gone(pid)
    expect(existsSync(folder)).toBe(false)
    // The same without a process: nothing is spared.
    mkdirSync(folder, { recursive: true })
    writeFileSync(kernelFolder(folder).host, JSON.stringify(record))
    look(true)
    expect(existsSync(folder)).toBe(false)
  }))
