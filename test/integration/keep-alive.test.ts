/** How long a kernel is kept when nobody is in its room. */
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { openWith, run } from '../conformance/kernels/runs.ts'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { alive, gone } from '../support/processes.ts'

test('a kernel with nobody in its room ends when its time is over; a pinned one and one that runs stay', () =>
  withHome(
    async (home) => {
      const daemon = await startDaemon(home)
      const client = await connect({ env: home.env })
      const open = async () => {
        const room = await openWith(client, 'javascript', home.work)
        await run(room, '1')
        return { room, pid: room.state.kernel?.pid ?? 0 }
      }
      const [short, pinned, busy] = await Promise.all([open(), open(), open()])
      expect(await short.room.keepAlive(5)).toBe(5)
      expect(await busy.room.keepAlive(5)).toBe(5)
      expect((await roomd(home, ['keep', pinned.room.id, 'pinned', '--json'])).stdout).toContain('"pinned"')
      const refused = await roomd(home, ['keep', pinned.room.id, '3s'])
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('5s to 7d')])
      const working = await busy.room.execute({
        code: 'const { existsSync } = require("node:fs"); while (!existsSync("go")) await new Promise((r) => setTimeout(r, 20))',
      })
      const { rooms } = await client.call('list_rooms', {})
      const kept = new Map(rooms.map((room) => [room.notebook_id, room.keep_alive]))
      expect([short, pinned].map(({ room }) => kept.get(room.id))).toEqual([5, 'pinned'])
      for (const { room } of [short, pinned, busy]) await room.close()
      await gone(short.pid)
      expect([pinned.pid, busy.pid].map(alive)).toEqual([true, true])
      // It holds without a daemon too, and with the next one.
      await daemon.kill9()
      await startDaemon(home)
      const back = await client.openRoom({ notebook_id: busy.room.id })
      await run(await openWith(client, 'javascript', home.work), 'require("node:fs").writeFileSync("go", "")')
      await (await back.follow(working.id)).done
      await back.close()
      await gone(busy.pid)
      expect(alive(pinned.pid)).toBe(true)
      await client.close()
    },
    { SHELL: '/bin/sh' },
  ))

test('a room asks for the kernel it had, when nothing else says which', () =>
  withHome(
    async (home) => {
      const daemon = await startDaemon(home)
      const client = await connect({ env: home.env })
      const room = await client.openRoom({ create: { working_dir: home.work } })
      const { kernel } = await room.restartKernel('javascript')
      expect(kernel.name).toBe('javascript')
      await room.call('shutdown_kernel', {})
      await daemon.kill9()
      await startDaemon(home)
      await run(room, '1')
      expect(room.state.kernel?.name).toBe('javascript')
      await client.close()
    },
    { SHELL: '/bin/sh' },
  ))
