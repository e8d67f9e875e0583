import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import type { Execution } from '../../protocol/notebook.ts'
import { roomd } from '../support/command.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { JupyterServer } from '../support/jupyter-server.ts'
import { needs } from '../support/machine.ts'
import { TcpRelay } from '../support/tcp-relay.ts'
import { until } from '../support/until.ts'

interface Far {
  readonly home: TestHome
  readonly server: JupyterServer
  readonly relay: TcpRelay
  start(): Promise<TestDaemon>
}

/** A daemon whose settings name a relay before a real Jupyter Server as the gateway `far`. */
async function withFarDaemon(use: (far: Far) => Promise<void>): Promise<void> {
  const server = await JupyterServer.start(['--ServerApp.limit_rate=False'])
  const relay = await TcpRelay.start(server.port)
  try {
    await withHome(async (home) => {
      mkdirSync(home.places.config, { recursive: true })
      const gateways = [{ name: 'far', url: relay.url, token_env: 'FAR_TOKEN' }]
      writeFileSync(
        join(home.places.config, 'config.json'),
        JSON.stringify({ kernels: { gateways }, pool: { generic: false } }),
      )
      await use({
        home,
        server,
        relay,
        start: () => startDaemon(home, { FAR_TOKEN: server.token, SHELL: '/bin/sh' }),
      })
    })
  } finally {
    await relay.dispose()
    await server.dispose()
  }
}

function textOf({ outputs }: Execution): string {
  return outputs.map((output) => (output.output_type === 'stream' ? String(output.text) : '')).join('')
}

test('the daemon is killed twice during a remote execution: every line once, the same kernel, done', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withFarDaemon(async ({ home, start, server }) => {
    let daemon = await start()
    const client = await connect({ env: { ...home.env, ROOMD_NO_AUTOSTART: '1' } })
    try {
      const room = await client.openRoom({ create: { kernel: 'far/python3', working_dir: home.work } })
      const first = await room.execute({ code: 'runs = 0' })
      expect((await first.done).status).toBe('done')
      const run = await room.execute({
        code: 'import time\nruns += 1\nfor i in range(300):\n  print(i, flush=True)\n  time.sleep(0.02)',
      })
      const seen = async (): Promise<string> =>
        textOf((await client.call('get_execution', { execution_id: run.id })).execution)
      for (const number of [20, 100]) {
        await until('some output', async () => (await seen()).includes(`\n${number}\n`))
        await daemon.kill9()
        daemon = await start()
      }
      const { execution } = await run.done
      expect(execution.status).toBe('done')
      expect(await seen()).toBe(Array.from({ length: 300 }, (_, n) => `${n}\n`).join(''))
      const after = await room.execute({ code: 'print(runs)' })
      expect(textOf((await after.done).execution)).toBe('1\n')
      expect(await server.kernels()).toHaveLength(1)

      // A restart is another kernel there, and the old one is gone.
      const { kernel } = await room.restartKernel()
      expect(kernel).toMatchObject({ name: 'far/python3', pid: null })
      const fresh = await room.execute({ code: '"runs" in globals()' })
      expect((await fresh.done).execution.outputs).toMatchObject([{ data: { 'text/plain': 'False' } }])
      await until('the old kernel to be ended', async () => (await server.kernels()).length === 1)
    } finally {
      await client.close().catch(() => {})
      await daemon.stop()
    }
  })
})

test('peers see that the gateway is away; a server that lost the kernel ends the execution as lost, and the next cell gets a new one', (context) => {
  needs(context, 'Jupyter Server', 'Python kernel')
  return withFarDaemon(async ({ home, start, server, relay }) => {
    const daemon = await start()
    const client = await connect({ env: home.env })
    try {
      const room = await client.openRoom({ create: { kernel: 'far/python3', working_dir: home.work } })
      const run = await room.execute({ code: 'import time\nprint("up", flush=True)\ntime.sleep(600)' })
      await until('the cell to run', async () =>
        textOf((await client.call('get_execution', { execution_id: run.id })).execution).includes('up'),
      )
      relay.cut()
      await until('the room to tell', () =>
        room.state.kernel?.reason?.startsWith('reconnecting: the gateway "far"'),
      )
      const listed = await roomd(home, ['kernels'])
      expect(listed.stdout).toMatch(/far\/python3 +busy, reconnecting/)
      relay.restore()
      await until(
        'the room to tell that it is back',
        () => room.state.kernel !== null && room.state.kernel.reason === undefined,
      )

      await server.kill9()
      await server.start()
      const { execution } = await run.done
      expect(execution).toMatchObject({ status: 'lost' })
      expect(execution.reason).toContain('no such kernel any more')
      const next = await room.execute({ code: 'print(6 * 7)' })
      expect(textOf((await next.done).execution)).toBe('42\n')
    } finally {
      await client.close().catch(() => {})
      await daemon.stop()
    }
  })
})
