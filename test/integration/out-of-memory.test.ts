/** Kernels that the system ends for want of memory: named as what they are, and not started for ever. */
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { memoryGroup } from '../support/memory-group.ts'
import { until, within } from '../support/until.ts'

const GREEDY = `
const kept = []
for (;;) {
  kept.push(Buffer.alloc(8 << 20, 1))
  await new Promise((resolve) => setTimeout(resolve, 10))
}
`

test('three within 300 seconds: each is named with its cell and its peak; then only a person starts another', (context) => {
  const group = memoryGroup(600)
  if (!group) return context.skip('no memory control group (needs Linux and root)')
  return withHome(
    async (home) => {
      const daemon = await startDaemon(home)
      group.add(daemon.pid)
      const client = await connect({ env: home.env })
      const room = await client.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
      const cell = await room.createCell({ source: GREEDY })
      for (let death = 1; death <= 3; death++) {
        const waiting = [await room.execute(cell), await room.execute({ code: '1' })]
        const [greedy, behind] = await Promise.all(
          waiting.map(({ done }) => within(`death ${death}`, done, 60_000)),
        )
        expect(greedy).toMatchObject({
          status: 'lost',
          execution: {
            reason: expect.stringMatching(
              new RegExp(`ran out of memory .*at least [1-9]\\d+ MiB while it ran cell ${cell}`),
            ),
          },
        })
        expect(behind?.status).toBe('cancelled')
        await until('the dead kernel', () => room.state.kernel?.state === 'dead')
        expect(room.state.kernel?.reason).toContain('ran out of memory')
      }
      expect(room.state.kernel?.reason).toContain('no other is started by itself')
      const refused = {
        code: 'kernel_start_failed',
        retryable: false,
        detail: { breaker: 'out_of_memory' },
        next: { tool: 'restart_kernel', arguments: { reset: true } },
      }
      await expect(room.execute({ code: '1' })).rejects.toMatchObject(refused)
      await expect(room.restartKernel()).rejects.toMatchObject(refused)
      // Nothing was queued, and another room is as free as before.
      expect(room.state.queued).toEqual([])
      const other = await client.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
      expect((await (await other.execute({ code: '1' })).done).status).toBe('done')
      // It is the room's, not the daemon's.
      await daemon.kill9()
      await startDaemon(home)
      await expect(room.execute({ code: '1' })).rejects.toMatchObject(refused)
      const asked = await roomd(home, ['restart-kernel', room.id])
      expect([asked.code, asked.stderr]).toEqual([1, expect.stringContaining('--reset')])
      expect((await roomd(home, ['restart-kernel', room.id, '--reset'])).code).toBe(0)
      expect((await (await room.execute({ code: '6 * 7' })).done).status).toBe('done')
      await client.close()
    },
    { SHELL: '/bin/sh' },
  )
}, 180_000)
