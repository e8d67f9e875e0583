/** The compiled code that lies beside the daemon's program: made by a first run, and no more than a saving of time. */
import { type ChildProcess, spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { programFile } from '../../protocol/programs.ts'
import { answers } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'

let home: TestHome
/** A copy of the bundles without the code that their build left. */
let dist: string

beforeEach(() => {
  home = createHome()
  const built = dirname(programFile('daemon'))
  const root = join(home.path, 'installed')
  dist = join(root, 'dist')
  mkdirSync(root)
  cpSync(built, dist, {
    recursive: true,
    filter: (file) => !/\.(map|cache)$/.test(file) && !basename(file).startsWith('bench'),
  })
  symlinkSync(realpathSync(join(built, '..', 'node_modules')), join(root, 'node_modules'))
  cpSync(join(built, '..', 'package.json'), join(root, 'package.json'))
})

afterEach(() => home.dispose())

test('a daemon that became ready leaves its compiled code beside the program, and one that is torn is replaced', async () => {
  expect(kept()).toEqual([])
  await runOnce()
  const [file] = kept()
  if (file === undefined) throw new Error('nothing was kept')
  expect(kept()).toEqual([file])
  const whole = readFileSync(file)

  await runOnce()
  expect(readFileSync(file).equals(whole)).toBe(true)

  const torn = Buffer.from(whole)
  torn.fill(0, torn.length / 2)
  writeFileSync(file, torn)
  await runOnce()
  expect(kept()).toEqual([file])
  expect(readFileSync(file).equals(torn)).toBe(false)
})

function kept(): string[] {
  return readdirSync(dist)
    .filter((name) => name.includes('.cache'))
    .map((name) => join(dist, name))
}

async function runOnce(): Promise<void> {
  const daemon: ChildProcess = spawn(process.execPath, [join(dist, 'daemon.cjs')], {
    env: home.env,
    cwd: home.work,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const { pid } = daemon
  if (pid === undefined) throw new Error('the daemon could not be started')
  let said = ''
  daemon.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text
  })
  await until('the daemon to be ready', () => said.includes('ready: '), { detail: () => said })
  expect(await answers(home.places.socket)).toBe(true)
  daemon.kill('SIGTERM')
  await gone(pid)
}
