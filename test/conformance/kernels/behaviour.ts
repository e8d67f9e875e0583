/**
 * The behaviour that every kernel shows through roomd, whatever its language and wherever it runs: registers vitest tests for one
 * kernel. They go the whole way, through the SDK and a real daemon to the real kernel.
 *
 * To run another kernel through it: describe it as a KernelUnderTest and call this in a `*.test.ts` of this folder.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Client } from '../../../client/sdk/client.ts'
import { connect } from '../../../client/sdk/index.ts'
import type { Room } from '../../../client/sdk/room.ts'
import { startDaemon, type TestDaemon } from '../../support/daemon.ts'
import { createHome, type TestHome } from '../../support/home.ts'
import { has, needs } from '../../support/machine.ts'
import { gone, signal } from '../../support/processes.ts'
import { until, within } from '../../support/until.ts'
import {
  type KernelUnderTest,
  type Lack,
  lacking,
  type Offered,
  type Surroundings,
} from './kernel-under-test.ts'
import { brief, ended, lines, openWith, plain, run, running, text } from './runs.ts'

/** Bytes of a line of the flood, about, and how many lines: some MB. */
const FLOOD_WIDTH = 90
const FLOOD_LINES = 40_000
const SLOW_MS = 120_000

export function kernelBehaviour(kernel: KernelUnderTest): void {
  const { language, title } = kernel
  const { floodLines = FLOOD_LINES } = language
  let home: TestHome
  let surroundings: Surroundings | undefined
  let daemon: TestDaemon
  let client: Client
  /** One room for what leaves its kernel as it was. */
  let room: Room

  beforeAll(async () => {
    if (!kernel.needs.every(has)) return
    home = createHome()
    surroundings = await kernel.surroundings?.(home.path)
    daemon = await start()
    client = await connect({ env: home.env, label: 'suite' })
    room = await open()
  }, SLOW_MS)
  afterAll(async () => {
    await client?.close()
    await home?.dispose()
    await surroundings?.dispose()
  }, SLOW_MS)
  beforeEach((context) => needs(context, ...kernel.needs))

  // The login shell's profile is nobody's business here.
  const start = (): Promise<TestDaemon> => startDaemon(home, { SHELL: '/bin/sh', ...surroundings?.variables })
  const open = (): Promise<Room> => openWith(client, kernel.spec, home.work)
  const scenario = (what: string, use: () => Promise<void>): void => test(`${title}: ${what}`, use, SLOW_MS)
  /** A scenario that some kernels cannot show; then it shows that they cannot. */
  const offered = <T>(what: string, offer: Offered<T>, use: (offer: T) => Promise<void>): void => {
    if (!lacking(offer)) scenario(what, () => use(offer))
    else scenario(`${what}: not offered, because ${offer.lacks}`, () => showsLack(room, offer))
  }

  scenario('a cell gives its value, its count and its end; its results stay readable by id', async () => {
    const first = await run(room, language.value.code)
    const second = await run(room, language.value.code)
    expect(first.status).toBe('done')
    expect(plain(first)).toMatch(language.value.shows)
    expect(second.execution_count).toBe((first.execution_count ?? 0) + 1)
    const { execution } = await client.call('get_execution', { execution_id: first.execution_id })
    expect(execution).toEqual(first)
    expect(room.state.kernel).toMatchObject({ name: kernel.spec, state: 'idle' })
    expect(room.state.kernel?.language.toLowerCase()).toBe(language.name.toLowerCase())
  })

  scenario(
    'stdout and stderr come in the order in which they were written, the end behind them',
    async () => {
      const seen: string[] = []
      const stop = room.on('event', ({ event }) => {
        if (event.type === 'output' || event.type === 'output_splice') seen.push('output')
        if (event.type === 'execution_started' || event.type === 'execution_finished') seen.push(event.type)
      })
      const { outputs, status } = await run(room, language.mixed)
      stop()
      expect(status).toBe('done')
      expect(outputs.map((o) => (o.output_type === 'stream' ? [o.name, o.text] : o.output_type))).toEqual([
        ['stdout', 'one\n'],
        ['stderr', 'two\n'],
        ['stdout', 'three\n'],
      ])
      expect([seen[0], seen.at(-1)]).toEqual(['execution_started', 'execution_finished'])
    },
  )

  scenario('an error is told with name, value and traceback, and the kernel goes on', async () => {
    const failed = await run(room, language.fail.code)
    expect(failed.status).toBe('error')
    const last = failed.outputs.at(-1)
    if (last?.output_type !== 'error') throw new Error(`no error among ${brief(failed)}`)
    expect(last.ename).toMatch(language.fail.ename)
    expect(last.evalue).toMatch(language.fail.evalue)
    expect(failed.reason).toContain(last.evalue.split('\n', 1)[0])
    expect(last.traceback.join('\n')).toContain('on purpose')
    expect(text(await run(room, language.print('on we go')))).toBe('on we go\n')
  })

  scenario(
    'an error cancels what is behind it in the same run, or nothing where that is wanted',
    async () => {
      const fresh = await open()
      for (const source of [language.print('a'), language.fail.code, language.print('b')])
        await fresh.createCell({ source })
      const statuses = async (onError: 'stop' | 'continue') =>
        (await Promise.all((await fresh.runAll({ onError })).map((each) => ended(each)))).map(
          ({ status }) => status,
        )
      expect(await statuses('stop')).toEqual(['done', 'error', 'cancelled'])
      expect(await statuses('continue')).toEqual(['done', 'error', 'done'])
      await client.call('close_room', { notebook_id: fresh.id })
    },
  )

  scenario('cells can be queued while the kernel starts, one id each, and run in their order', async () => {
    const fresh = await open()
    const cell = await fresh.createCell({ source: language.assign('suite_order', 1) })
    const first = await fresh.execute(cell)
    const again = await fresh.execute(cell)
    const second = await fresh.execute({ code: language.tell('suite_order') })
    const dropped = await fresh.execute({ code: language.print('never') })
    expect([again.alreadyActive, again.id]).toEqual([true, first.id])
    expect((await dropped.interrupt()).status).toBe('cancelled')
    expect((await ended(first)).status).toBe('done')
    expect(text(await ended(second))).toBe('1\n')
    expect((await ended(dropped)).outputs).toEqual([])
    await client.call('close_room', { notebook_id: fresh.id })
  })

  scenario('a source that the caller has not seen is not run', async () => {
    const cell = await room.createCell({ source: language.print('seen') })
    const hash = room.state.cell(cell)?.source_hash ?? ''
    await room.setSource(cell, language.print('changed meanwhile'))
    await expect(room.execute(cell, { expectSourceHash: hash })).rejects.toMatchObject({ code: 'conflict' })
  })

  for (const [what, code] of [
    ['computes', language.compute],
    ['sleeps', language.sleep],
  ] as const)
    scenario(
      `an interrupt ends a cell that ${what}, cancels what waits, and keeps the variables`,
      async () => {
        await run(room, language.assign('suite_kept', 4711))
        const busy = await room.execute({ code })
        const waiting = await room.execute({ code: language.print('never') })
        await until('the cell to begin', () => text(busy.execution).includes('begun'))
        const answer = await room.interrupt()
        expect(answer).toEqual({ interrupted: busy.id, cancelled: [waiting.id] })
        expect((await ended(busy)).status).toBe('interrupted')
        expect((await ended(waiting)).status).toBe('cancelled')
        expect(text(await run(room, language.tell('suite_kept')))).toBe('4711\n')
      },
    )

  scenario('input is asked of every peer, the first answer wins, the second is refused', async () => {
    const other = await connect({ env: home.env, label: 'other' })
    const there = await other.openRoom({ notebook_id: room.id })
    const asking = await room.execute({ code: language.ask('name? ') })
    await until('the question, at the other peer', () => there.state.running?.status === 'waiting_for_input')
    expect(there.state.running).toMatchObject({ prompt: 'name? ', password: false })
    await there.sendInput(asking.id, 'Ada')
    await expect(room.sendInput(asking.id, 'Grace')).rejects.toMatchObject({ code: 'conflict' })
    const answered = await ended(asking)
    expect([answered.status, text(answered).trimEnd()]).toEqual(['done', 'got Ada'])
    await other.close()
  })

  offered('a secret is asked for as one', language.askSecret('secret? '), async (code) => {
    const asking = await room.execute({ code })
    await until('the question', () => room.state.running?.status === 'waiting_for_input')
    expect(room.state.running).toMatchObject({ prompt: 'secret? ', password: true })
    await room.sendInput(asking.id, 'sesame')
    expect(text(await ended(asking)).trimEnd()).toBe('got sesame')
  })

  offered('input raises where nobody can be asked', language.refusedInput, async (ename) => {
    const refused = await run(room, language.ask('name? '), { allowStdin: false })
    expect(refused.status).toBe('error')
    const error = refused.outputs.at(-1)
    expect(error?.output_type === 'error' ? error.ename : error).toMatch(ename)
  })

  scenario('an interrupt ends a question; the kernel goes on', async () => {
    const asking = await room.execute({ code: language.ask('anybody? ') })
    await until('the question', () => asking.execution.status === 'waiting_for_input')
    await room.interrupt()
    expect((await ended(asking)).status).toBe('interrupted')
    expect(text(await run(room, language.print('still here')))).toBe('still here\n')
  })

  offered(
    'a display is updated where it was shown, also from later cells',
    language.displays,
    async (displays) => {
      const shown = await run(room, displays.show('suite-id', 'before'))
      expect(plain(shown)).toBe('before')
      const updating = await run(room, displays.update('suite-id', 'after'))
      expect(updating.outputs).toEqual([])
      const { execution } = await client.call('get_execution', { execution_id: shown.execution_id })
      expect(plain(execution)).toBe('after')
      expect(plain(room.state.execution(shown.execution_id) ?? execution)).toBe('after')
    },
  )

  offered(
    'clearing takes away what was shown, at once or with what comes next',
    language.clears,
    async (clears) => {
      expect(text(await run(room, clears(false, false)))).toBe('')
      expect(text(await run(room, clears(false, true)))).toBe('second\n')
      // Nothing comes next: it stays.
      expect(text(await run(room, clears(true, false)))).toBe('first\n')
      expect(text(await run(room, clears(true, true)))).toBe('second\n')
    },
  )

  scenario('a rich value is shown with its mime types', async () => {
    const { outputs } = await run(room, language.html)
    const rich = outputs.find((o) => o.output_type === 'display_data' || o.output_type === 'execute_result')
    expect(rich && 'data' in rich ? String(rich.data['text/html']).trim() : brief({ outputs })).toBe(
      '<b>bold</b>',
    )
  })

  offered('names are completed', language.complete, async ({ before, code, match }) => {
    await run(room, before)
    const { matches, cursor_start, cursor_end } = await room.call('complete', { code, cursor: code.length })
    expect(matches).toContain(match)
    expect([code.slice(0, cursor_start), cursor_end]).toEqual(['', code.length])
  })

  offered('a name is explained', language.inspect, async ({ before, code, shows }) => {
    await run(room, before)
    const { found, data } = await room.call('inspect', { code, cursor: code.length })
    expect(found).toBe(true)
    expect(String(data['text/plain'])).toMatch(shows)
  })

  scenario(`a flood of ${floodLines} lines arrives whole, and another room works meanwhile`, async () => {
    const other = await open()
    await run(other, language.print('warm'))
    const flooding = await room.execute({ code: language.flood(floodLines, FLOOD_WIDTH) })
    const reading = lines(flooding)
    await running(flooding)
    expect(text(await run(other, language.print('meanwhile')))).toBe('meanwhile\n')
    const got = await within('the flood', reading, SLOW_MS)
    expect((await ended(flooding)).truncated).toBe(false)
    expect(got.length).toBe(floodLines)
    const wrong = got.findIndex((line, i) => line !== `${i} ${'x'.repeat(FLOOD_WIDTH)}`)
    expect(wrong === -1 ? null : [wrong, got[wrong]]).toBe(null)
    await client.call('close_room', { notebook_id: other.id })
  })

  scenario('the daemon is killed while a cell prints: every line once, the variables stay', async () => {
    await run(room, language.assign('suite_survives', 99))
    const printing = await room.execute({ code: language.slowLines(200) })
    const reading = lines(printing)
    await running(printing)
    await daemon.kill9()
    daemon = await start()
    expect((await within('the end', ended(printing), SLOW_MS)).status).toBe('done')
    expect(await reading).toEqual(Array.from({ length: 200 }, (_, i) => `${i}`))
    expect(text(await run(room, language.tell('suite_survives')))).toBe('99\n')
  })

  scenario('a restart ends what runs and what waits, and begins with no variables', async () => {
    const fresh = await open()
    await run(fresh, language.assign('suite_forgotten', 1))
    const before = fresh.state.kernel
    const busy = await fresh.execute({ code: language.sleep })
    const waiting = await fresh.execute({ code: language.print('never') })
    await until('the cell to begin', () => text(busy.execution).includes('begun'))
    const { kernel: after } = await fresh.restartKernel()
    expect(after.name).toBe(kernel.spec)
    expect(after.kernel_id).not.toBe(before?.kernel_id)
    expect((await ended(busy)).status).toBe('interrupted')
    expect((await ended(waiting)).status).toBe('cancelled')
    if (kernel.local && before?.pid) await gone(before.pid)
    const asked = await run(fresh, language.tell('suite_forgotten'))
    expect([asked.status, asked.execution_count]).toEqual(['error', 1])
    await client.call('close_room', { notebook_id: fresh.id })
  })

  if (!kernel.local) return

  scenario(
    'a kernel that crashes is told at once, with its signal and its last words, to every peer',
    async () => {
      const fresh = await open()
      const crashing = await fresh.execute({ code: language.crash.code })
      const waiting = await fresh.execute({ code: language.print('never') })
      // What a kernel has not sent off yet when it crashes nobody can have: so it crashes when all is here.
      await until('the question', () => crashing.execution.status === 'waiting_for_input')
      await fresh.sendInput(crashing.id, 'now')
      const crashed = await ended(crashing)
      expect(text(crashed)).toMatch(/^before\n/)
      expect(crashed.status).toBe('lost')
      expect(crashed.reason).toMatch(language.crash.signal)
      expect(crashed.reason).toMatch(language.crash.stderr)
      expect((await ended(waiting)).status).toBe('cancelled')
      await until('the dead kernel to be told', () => fresh.state.kernel?.state === 'dead')
      expect(fresh.state.kernel?.reason).toMatch(language.crash.signal)
      // The next cell has a fresh one.
      expect(text(await run(fresh, language.print('anew')))).toBe('anew\n')
      await client.call('close_room', { notebook_id: fresh.id })
    },
  )

  scenario('an idle kernel that is killed is told too', async () => {
    const fresh = await open()
    await run(fresh, language.print('up'))
    signal(fresh.state.kernel?.pid ?? 0, 'SIGKILL')
    await until('the dead kernel to be told', () => fresh.state.kernel?.state === 'dead')
    expect(fresh.state.kernel).toMatchObject({ name: kernel.spec, reason: expect.stringMatching(/SIGKILL/) })
    await client.call('close_room', { notebook_id: fresh.id })
  })
}

async function showsLack(room: Room, { proof }: Lack): Promise<void> {
  expect(text(await run(room, proof)).trim()).toBe('yes')
}
