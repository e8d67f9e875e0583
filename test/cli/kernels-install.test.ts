/** The kernel of roomd in Jupyter: installed by the command, run by Jupyter's own client. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { roomd } from '../support/command.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { needs, pythonFile } from '../support/machine.ts'

let home: TestHome
let prefix: string

beforeEach(() => {
  home = createHome({ SHELL: '/bin/sh' })
  prefix = join(home.path, 'prefix')
  // Nobody's own folders.
  home.env.JUPYTER_DATA_DIR = join(home.path, 'data')
  home.env.JUPYTER_RUNTIME_DIR = join(home.path, 'runtime')
  home.env.VIRTUAL_ENV = join(home.path, 'venv')
})
afterEach(() => home.dispose())

const specIn = (folder: string) => join(folder, 'kernels', 'javascript', 'kernel.json')

/** Runs a cell as any Jupyter program would. */
const CLIENT = `
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="javascript")
try:
    said = []
    def hook(message):
        if message["msg_type"] == "stream": said.append(message["content"]["text"])
        if message["msg_type"] == "execute_result": said.append(message["content"]["data"]["text/plain"])
    reply = client.execute_interactive("console.log('from Jupyter'); const n: number = 6; n * 7", output_hook=hook, timeout=60)
    print(reply["content"]["status"], "|".join(said))
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
`

test('installed below a prefix it runs a cell of a Jupyter client', async (context) => {
  needs(context, 'jupyter_client')
  const { code, stdout } = await roomd(home, ['kernels', 'install', 'javascript', '--prefix', prefix])
  expect([code, stdout]).toEqual([0, expect.stringContaining('javascript')])
  const { stdout: said, stderr } = spawnSync(pythonFile, ['-c', CLIENT], {
    encoding: 'utf8',
    env: { ...home.env, JUPYTER_PATH: join(prefix, 'share', 'jupyter') },
  })
  expect(said.trim(), stderr).toBe('ok from Jupyter\n|42')
})

test('the three places, --print, twice, and taking it away', async () => {
  const install = (...args: string[]) => roomd(home, ['kernels', 'install', 'javascript', '--json', ...args])
  const user = specIn(join(home.path, 'data'))
  const printed = await roomd(home, ['kernels', 'install', 'javascript', '--print'])
  expect(JSON.parse(printed.stdout)).toMatchObject({ language: 'javascript' })
  expect(existsSync(user)).toBe(false)
  expect(JSON.parse((await install()).stdout)).toMatchObject({ path: user, changed: true })
  expect(JSON.parse((await install('--user')).stdout)).toMatchObject({ path: user, changed: false })
  expect(JSON.parse((await install('--sys-prefix')).stdout)).toMatchObject({
    path: specIn(join(home.path, 'venv', 'share', 'jupyter')),
  })
  expect((await install('--user', '--sys-prefix')).code).toBe(2)
  expect((await roomd(home, ['kernels', 'uninstall', 'javascript'])).code).toBe(0)
  expect(existsSync(join(home.path, 'data', 'kernels', 'javascript'))).toBe(false)
  expect((await roomd(home, ['kernels', 'uninstall', 'javascript'])).code).toBe(1)
})

test('a kernelspec of somebody else is neither written over nor taken away', async () => {
  const theirs = specIn(join(home.path, 'data'))
  mkdirSync(join(theirs, '..'), { recursive: true })
  writeFileSync(theirs, JSON.stringify({ argv: ['ijskernel'], display_name: 'IJavascript' }))
  for (const verb of ['install', 'uninstall']) {
    const { code, stderr } = await roomd(home, ['kernels', verb, 'javascript'])
    expect([code, stderr]).toEqual([1, expect.stringContaining(theirs)])
  }
  expect(JSON.parse(readFileSync(theirs, 'utf8'))).toMatchObject({ display_name: 'IJavascript' })
})

test('roomd itself goes on using the kernel it comes with', async () => {
  await roomd(home, ['kernels', 'install', 'javascript'])
  await startDaemon(home)
  const { stdout } = await roomd(home, ['kernels', '--json'])
  const { specs, running, standbys } = JSON.parse(stdout)
  expect(specs).toContainEqual(
    expect.objectContaining({ name: 'javascript', source: 'embedded', usable: true, language: 'javascript' }),
  )
  expect([running, Array.isArray(standbys)]).toEqual([[], true])
})
