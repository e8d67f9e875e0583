/**
 * Many kernels at once on a machine whose ports are taken all the time. ipc needs none; TCP, where ipc is not to be had, takes others
 * when it finds its own taken. `ROOMD_TEST_KERNELS` makes it more of them (a soak: 40).
 */
import { spawn } from 'node:child_process'
import { expect, onTestFinished, test } from 'vitest'
import { LineReader } from '../support/line-reader.ts'
import { needs } from '../support/machine.ts'
import { Listener, withKernels } from './harness.ts'

const KERNELS = Number(process.env.ROOMD_TEST_KERNELS ?? 5)
const LONG_MS = 60_000 + KERNELS * 15_000

/** Takes 500 of the ports that kernels are given, then 200 a second, and keeps 2,000. Says `taking` when it has many. */
const GRABBER = `
import { createServer } from 'node:net'
const held = []
let told = false
const grab = () => {
  for (let i = told ? 4 : 100; i > 0; i--) {
    const server = createServer((socket) => socket.on('error', () => {}))
    server.on('error', () => {})
    server.listen({ host: '127.0.0.1', port: 20_000 + Math.floor(Math.random() * 12_000), exclusive: true }, () => held.push(server))
  }
  while (held.length > 2_000) held.shift().close()
  if (held.length > 500 && !told) {
    told = true
    console.log('taking')
  }
  setTimeout(grab, 20)
}
grab()
`

async function takePorts(): Promise<void> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', GRABBER], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  await new LineReader(child.stdout).next(/taking/)
}

for (const transport of ['ipc', 'tcp'] as const)
  test(
    `${KERNELS} kernels come up at once by ${transport} while another program takes ports at random`,
    async (context) => {
      needs(context, 'Python kernel')
      await takePorts()
      await withKernels(
        async ({ start, provider }) => {
          const kernels = await Promise.all(Array.from({ length: KERNELS }, () => start('python3')))
          expect(new Set(kernels.map((kernel) => kernel.summary().pid)).size).toBe(KERNELS)
          expect(provider.running().length).toBe(KERNELS)
          for (const [index, kernel] of kernels.entries()) {
            const listener = new Listener(kernel)
            expect(listener.result(await listener.run(`${index} * 2`))).toBe(`${index * 2}`)
          }
        },
        { transport },
      )
    },
    LONG_MS,
  )
