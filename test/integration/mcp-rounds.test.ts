/**
 * Two MCP clients and an SDK client in one room, while daemon, child and proxy are killed in turn: sessions come back by themselves,
 * what was answered took effect exactly once, peers are counted right and no process is left over. `ROOMD_TEST_ROUNDS` sets how many.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { type Installed, startInstalled, type ToolResult } from '../mcp-proxy/support/installed.ts'
import { startDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { gone, processesOf, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'

const ROUNDS = Number(process.env.ROOMD_TEST_ROUNDS ?? 6)
const CALLS = 4
/** A developer's profile may take its time; kernels are asked to start in a plain shell. */
const shell = { SHELL: '/bin/sh' }

const text = (result: ToolResult) => result.content.map((block) => block.text ?? '').join('\n')

interface Made {
  cell: { cell_id: string }
  execution: { execution_id: string; status: string }
}

/** What the programs of the home are, by the names of their files. */
function programs(home: TestHome): string[] {
  return processesOf(home.path)
    .map((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
        return words.map((word) => /([\w-]+)\.c?js$/.exec(word)?.[1]).find((name) => name) ?? words.join(' ')
      } catch {
        // It ended meanwhile.
        return ''
      }
    })
    .filter((name) => name !== '')
    .sort()
}

test('two MCP clients and one of the SDK are listed by their labels; A runs, B reads the result', () =>
  withHome(async (home) => {
    const daemon = await startDaemon(home, shell)
    const a = await startInstalled(home, 'claude-code')
    const b = await startInstalled(home, 'codex')
    const ada = await connect({ env: home.env, label: 'Ada' })
    const { path } = await a.must('create_notebook', { path: 'shared.ipynb', kernel: 'javascript' })
    await b.must('connect_notebook', { path })
    const room = await ada.openRoom({ path: String(path) })
    const { notebooks } = (await b.must('list_active_notebooks')) as {
      notebooks: { peers: { label: string; kind: string }[] }[]
    }
    expect(notebooks[0]?.peers.map(({ label, kind }) => `${label} ${kind}`).sort()).toEqual([
      'Ada editor',
      'claude-code mcp',
      'codex mcp',
    ])
    const { execution } = (await a.must('create_cell', {
      source: 'console.log("from A"); 6 * 7',
      and_run: true,
    })) as unknown as Made
    const read = await b.call('get_results', { execution_id: execution.execution_id })
    expect(read.structuredContent).toMatchObject({ status: 'done', by: 'claude-code' })
    expect(text(read)).toContain('from A')
    expect(text(read)).toContain('42')
    await until('the end of the run', () => room.state.execution(execution.execution_id)?.status === 'done')
    for (const mcp of [a, b]) await mcp.close()
    await ada.close()
    await daemon.stop()
  }))

/** A length that 3 does not divide, so that each victim meets each moment; the budget for crashes is each proxy's own. */
const victims = ['daemon', 'child of A', 'proxy B', 'daemon', 'child of B', 'proxy A', 'daemon'] as const

test(
  `daemon, child and proxy are killed in turn, ${ROUNDS} rounds: sessions come back, nothing is lost or doubled`,
  () =>
    withHome(async (home) => {
      let daemon = await startDaemon(home, shell)
      const mcp = { A: await startInstalled(home, 'A'), B: await startInstalled(home, 'B') }
      const ada = await connect({ env: home.env, label: 'Ada', waitMs: 60_000 })
      const path = join(home.work, 'shared.ipynb')
      await mcp.A.must('create_notebook', { path, kernel: 'javascript' })
      await mcp.A.must('create_cell', { source: 'let seen = []', and_run: true })
      await mcp.B.must('connect_notebook', { path })
      const room = await ada.openRoom({ path })

      const acknowledged: string[] = []
      /** Calls that nobody could answer any more, because their proxy was killed: they took effect once or not at all. */
      const unanswered: string[] = []
      const failed: string[] = []

      for (let round = 0; round < ROUNDS; round++) {
        const victim = victims[round % victims.length]
        const names = (who: string) => Array.from({ length: CALLS }, (_, n) => `${who} ${round} ${n}`)
        const byMcp = (['A', 'B'] as const).flatMap((who) =>
          names(who).map(async (name) => {
            const made = mcp[who].call('create_cell', { source: `seen.push('${name}')`, and_run: true })
            await made.then(
              (result) => {
                const { execution } = (result.structuredContent ?? {}) as Partial<Made>
                if (result.isError || execution?.status !== 'done') failed.push(`${name}: ${text(result)}`)
                else acknowledged.push(name)
              },
              (error) => {
                if (victim === `proxy ${who}`) unanswered.push(name)
                else failed.push(`${name}: ${error}`)
              },
            )
          }),
        )
        const bySdk = names('Ada').map(async (name) => {
          const cell = await room.createCell({ source: `seen.push('${name}')` })
          const { status } = await (await room.execute(cell)).done
          if (status === 'done') acknowledged.push(name)
          else failed.push(`${name}: ${status}`)
        })
        // At another moment each time: before the first answer, after it, after most of them.
        const moment = acknowledged.length + ([0, 1, 2 * CALLS][round % 3] ?? 0)
        await until('the moment to kill', () => acknowledged.length >= moment)
        switch (victim) {
          case 'daemon':
            await daemon.kill9()
            daemon = await startDaemon(home, shell)
            break
          case 'child of A':
            await mcp.A.killChild()
            break
          case 'child of B':
            await mcp.B.killChild()
            break
          case 'proxy A':
          case 'proxy B': {
            const who = victim === 'proxy A' ? 'A' : 'B'
            mcp[who] = await anotherClient(home, mcp[who], who, path)
            break
          }
        }
        await Promise.all([...byMcp, ...bySdk])
        expect(failed).toEqual([])
        // Without anybody's doing: the session of each is the one it had, and all three are in the room, each once.
        for (const who of ['A', 'B'] as const) {
          const { total } = await mcp[who].must('get_all_cells')
          // Each is told by a connection of its own.
          await until('all cells', () => room.state.cells.length === total)
          const { active, notebooks } = (await mcp[who].must('list_active_notebooks')) as {
            active?: string
            notebooks: unknown[]
          }
          expect(active, `round ${round}, after the ${victim}`).toBe(room.id)
          expect(notebooks).toHaveLength(1)
        }
        await until(
          'three peers',
          async () => {
            const { rooms } = await ada.call('list_rooms', {})
            return (
              rooms[0]?.peers
                .map((peer) => peer.label)
                .sort()
                .join() === 'A,Ada,B'
            )
          },
          { detail: () => `round ${round}, after the ${victim}` },
        )
      }

      // The document and the kernel's own memory tell the same: once each.
      const run = await room.execute({ code: 'console.log(JSON.stringify(seen))' })
      await run.done
      const said = (await ada.call('get_execution', { execution_id: run.execution.execution_id })).execution
        .outputs[0]
      const seen = JSON.parse(said?.output_type === 'stream' ? String(said.text) : '[]') as string[]
      const cells = await allCells(mcp.A)
      const made = cells.flatMap(({ source }) => /^seen\.push\('(.*)'\)$/.exec(source)?.[1] ?? [])
      for (const happened of [seen, made]) {
        expect(new Set(happened).size).toBe(happened.length)
        expect(acknowledged.filter((name) => !happened.includes(name))).toEqual([])
        const allowed = new Set([...acknowledged, ...unanswered])
        expect(happened.filter((name) => !allowed.has(name))).toEqual([])
      }
      expect(acknowledged.length + unanswered.length).toBe(ROUNDS * CALLS * 3)

      for (const who of ['A', 'B'] as const) await mcp[who].close()
      await until('one peer', async () => (await ada.call('status', {})).peers === 1)
      await ada.close()
      const left = ['daemon', 'javascript-kernel', 'kernel-host']
      await until(
        'nothing but the daemon, one host and one kernel',
        () => programs(home).join() === left.join(),
        {
          detail: () => programs(home).join(),
        },
      )
      await daemon.stop()
    }),
  60_000 + ROUNDS * 20_000,
)

/** kill -9 of the proxy, then what an MCP client does: it starts the server again and opens its notebook. */
async function anotherClient(home: TestHome, old: Installed, who: string, path: string): Promise<Installed> {
  const child = old.childPid()
  signal(old.proxyPid, 'SIGKILL')
  await gone(old.proxyPid)
  if (child !== undefined) await gone(child)
  const next = await startInstalled(home, who)
  await next.must('connect_notebook', { path })
  return next
}

async function allCells(mcp: Installed): Promise<{ source: string }[]> {
  const all: { source: string }[] = []
  for (let start: number | undefined = 0; start !== undefined; ) {
    const page = (await mcp.must('get_all_cells', { format: 'full', start, count: 500 })) as {
      cells: { source: string }[]
      next_start?: number
    }
    all.push(...page.cells)
    start = page.next_start
  }
  return all
}
