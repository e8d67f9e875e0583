/** A kernel that hangs while it starts holds nobody up who wants it gone. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { alive, processesOf } from '../support/processes.ts'
import { until, within } from '../support/until.ts'

/** A kernelspec whose program never speaks. */
function hangingSpec(home: TestHome): string {
  const folder = join(home.path, 'specs')
  mkdirSync(join(folder, 'kernels', 'hangs'), { recursive: true })
  const spec = {
    argv: ['/bin/sh', '-c', 'sleep 1000; exit', '{connection_file}'],
    display_name: 'Hangs',
    language: 'none',
  }
  writeFileSync(join(folder, 'kernels', 'hangs', 'kernel.json'), JSON.stringify(spec))
  return folder
}

test('restarting, closing and stopping call the start off; what waited is cancelled, nothing is left', () =>
  withHome(async (home) => {
    const daemon = await startDaemon(home, { JUPYTER_PATH: hangingSpec(home), SHELL: '/bin/sh' })
    const client = await connect({ env: home.env })
    const starting = async () => {
      const before = processesOf(home.path)
      const room = await client.openRoom({ create: { kernel: 'hangs', working_dir: home.work } })
      const run = await room.execute({ code: '1' })
      await until(
        'host and kernel',
        () => processesOf(home.path).filter((pid) => !before.includes(pid)).length >= 2,
      )
      return { room, run }
    }
    try {
      const one = await starting()
      const { kernel } = await within('the restart', one.room.restartKernel('javascript'))
      expect(kernel.name).toBe('javascript')
      expect((await one.run.done).status).toBe('cancelled')
      const next = await one.room.execute({ code: 'console.log(6 * 7)' })
      expect((await within('the run', next.done)).execution.outputs).toMatchObject([{ text: '42\n' }])

      const two = await starting()
      const closed = client.call('close_room', { notebook_id: two.room.id })
      expect(await within('closing', closed)).toMatchObject({ kernel_ended: true })

      const three = await starting()
      expect((await within('stop', roomd(home, ['stop', '--kernels']))).code).toBe(0)
      await until('the daemon to be gone', () => !alive(daemon.pid))
      await until('nothing to be left', () => processesOf(home.path).length === 0)
      const again = await startDaemon(home, { SHELL: '/bin/sh' })
      expect((await within('the cancelled run', three.run.done)).status).toBe('cancelled')
      await again.stop()
    } finally {
      await client.close().catch(() => {})
    }
  }))
