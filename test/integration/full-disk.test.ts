/** The disk of the home fills up while a cell runs. No process ends, and what was printed meanwhile comes later, each line once. */
import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, type TestContext, test } from 'vitest'
import { type Client, connect, type Room, type Run } from '../../client/sdk/index.ts'
import { resolvePlaces } from '../../protocol/places.ts'
import { programFile } from '../../protocol/programs.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { alive, endProcessesOf } from '../support/processes.ts'
import { type SmallDisk, smallDisk } from '../support/small-disk.ts'
import { until, within } from '../support/until.ts'

const LINES = 400
const printing = (after = '') =>
  `for (let i = 0; i < ${LINES}; i++) { console.log('line ' + i + ' ' + '.'.repeat(200)); await new Promise((r) => setTimeout(r, 5)) }${after}`
const expected = Array.from({ length: LINES }, (_, i) => `line ${i} ${'.'.repeat(200)}\n`).join('')

interface Bench {
  readonly home: TestHome
  readonly disk: SmallDisk
  readonly client: Client
  readonly room: Room
  readonly run: Run
  daemon: TestDaemon
}

/** A cell prints, the disk is full, and the daemon has noticed. */
async function whileFull(context: TestContext, source: string, use: (bench: Bench) => Promise<void>) {
  const disk = smallDisk(24)
  if (disk === null) return context.skip('mounting a small tmpfs needs root')
  const path = join(disk.path, 'home')
  const work = join(path, 'work')
  mkdirSync(work, { recursive: true })
  const outer = createHome({ SHELL: '/bin/sh' })
  const env = { ...outer.env, ROOMD_HOME: path }
  const home: TestHome = { ...outer, path, work, env, places: resolvePlaces(env) }
  const daemon = await startDaemon(home)
  const client = await connect({ env, waitMs: 30_000 })
  try {
    const room = await client.openRoom({ create: { kernel: 'javascript', working_dir: work } })
    const run = await room.execute({ code: source })
    await until('some lines', () => printed(run).includes('line 20 '))
    disk.fill()
    await until('the daemon to notice', () =>
      room.createCell({ source: '.'.repeat(20_000) }).then(
        () => false,
        (error) => error.code === 'storage_full',
      ),
    )
    await use({ home, disk, client, room, run, daemon })
  } finally {
    await client.close().catch(() => {})
    await endProcessesOf(path)
    await outer.dispose()
  }
}

function printed(run: Run): string {
  return run.execution.outputs
    .map((output) => (output.output_type === 'stream' && typeof output.text === 'string' ? output.text : ''))
    .join('')
}

async function everything({ client, run }: Bench): Promise<string> {
  let text = ''
  const { outputs } = await within('the end of the run', run.done, 40_000).then(({ execution }) => execution)
  for (const [index, output] of outputs.entries()) {
    if (output.output_type !== 'stream') continue
    for (let offset: number | null = 0; offset !== null; ) {
      const slice: { text: string; next_offset: number | null } = await client.call('read_output', {
        execution_id: run.id,
        index,
        offset,
      })
      text += slice.text
      offset = slice.next_offset
    }
  }
  return text
}

test('a cell that goes on printing: host and kernel live, all lines come once there is room', (context) =>
  whileFull(context, printing(), async (bench) => {
    const { disk, room, run } = bench
    const kernel = room.state.kernel
    const behind = room.execute({ code: '1' }).catch((error) => error.code)
    expect(await behind).toBe('storage_full')
    disk.free()
    expect(await everything(bench)).toBe(expected)
    expect(run.execution.status).toBe('done')
    expect(room.state.kernel?.pid).toBe(kernel?.pid)
    expect(room.state.kernel?.host_pid).toBe(kernel?.host_pid)
    await until('writing', () => room.createCell({ source: '1' }).catch(() => null))
  }))

test('a kernel that ends itself meanwhile: its last lines come, then its death', (context) =>
  whileFull(context, `${printing()}; process.exit(9)`, async (bench) => {
    const { disk, room, run } = bench
    // It is held as long as the host cannot write either.
    expect(alive(room.state.kernel?.pid ?? 0)).toBe(true)
    disk.free()
    expect(await everything(bench)).toBe(expected)
    expect(run.execution).toMatchObject({ status: 'lost', reason: expect.stringContaining('code 9') })
    expect((await within('a run in a fresh kernel', (await room.execute({ code: '1' })).done)).status).toBe(
      'done',
    )
  }))

test('a daemon that is killed meanwhile: the next one starts on the full disk and takes the kernel over', (context) =>
  whileFull(context, printing(), async (bench) => {
    const { home, disk, client, room, run, daemon } = bench
    const kernel = room.state.kernel
    await daemon.kill9()
    // `startDaemon` waits for daemon.json, for which there is no room.
    const next = spawn(process.execPath, [programFile('daemon')], { env: home.env, stdio: 'ignore' })
    await until('the client to be back', () => client.connected && client.daemon?.pid === next.pid)
    expect(alive(kernel?.pid ?? 0)).toBe(true)
    disk.free()
    expect(await everything(bench)).toBe(expected)
    expect(run.execution.status).toBe('done')
    expect(room.state.kernel?.pid).toBe(kernel?.pid)
  }))
