/**
 * Two real Yjs editors (y-websocket's provider, each in a process of its own) and an MCP child edit one cell at once while the
 * daemon is killed three times. All end with one text, and nothing that was acknowledged, or that an editor still had, is missing.
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { startChild } from '../mcp/harness.ts'
import { LineReader } from '../support/line-reader.ts'
import { gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { HttpFixture } from './support.ts'

/** Edits each; 1000 for the long run. */
const EDITS = Number(process.env.ROOMD_TEST_EDITS ?? 80)
const PATIENCE = { timeout: 60_000 + EDITS * 120 }

let http: HttpFixture | undefined
afterEach(async () => {
  await http?.dispose()
  http = undefined
})

interface Editor {
  edits: number
  done: boolean
  go(): void
  text(): Promise<{ text: string; synced: boolean; unsettled: boolean }>
}

async function editor(
  fixture: HttpFixture,
  label: string,
  notebookId: string,
  token: string,
): Promise<Editor> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./yjs-editor.mjs', import.meta.url))], {
    env: {
      ...fixture.home.env,
      URL_YJS: `${fixture.wsUrl}/yjs`,
      NOTEBOOK: notebookId,
      TOKEN: token,
      LABEL: label,
      EDITS: String(EDITS),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const pid = child.pid ?? 0
  fixture.later(async () => {
    signal(pid, 'SIGKILL')
    await gone(pid)
  })
  const lines = new LineReader(child.stdout)
  const next = async (): Promise<unknown> => JSON.parse(await lines.next(undefined, PATIENCE.timeout))
  expect(await next()).toBe('ready')
  const self: Editor = {
    edits: 0,
    done: false,
    go() {
      child.stdin.write('go\n')
      void (async () => {
        for (let said = await next(); ; said = await next()) {
          if (typeof said === 'number') self.edits = said
          else break
        }
        self.done = true
        // One that ends before is noticed by whoever waits for it.
      })().catch(() => {})
    },
    async text() {
      child.stdin.write('text\n')
      return (await next()) as Awaited<ReturnType<Editor['text']>>
    },
  }
  return self
}

test(
  'two editors and an MCP child in one cell, the daemon killed three times: all converge, nothing is missing',
  async () => {
    http = await HttpFixture.start()
    const fixture = http
    const id = await fixture.room('shared.ipynb', ['<m:0>'])
    const { token } = await fixture.token({ scope: 'editor', notebook_id: id })
    const [a, b] = await Promise.all([editor(fixture, 'a', id, token), editor(fixture, 'b', id, token)])
    const child = await startChild(fixture.home)
    fixture.later(() => child.close())
    await child.must('connect_notebook', { path: 'shared.ipynb' })

    a.go()
    b.go()
    const acknowledged: number[] = []
    const edits = (async () => {
      for (let n = 1; n <= EDITS; n++) {
        const edit = { cell_id: 'c0', match: `<m:${n - 1}>`, content: `<m:${n - 1}><m:${n}>` }
        let answer = await child.call('replace_match', edit)
        // Somebody else was quicker time and again: nothing was done, and it is for the agent to ask again.
        while (answer.structured.error?.code === 'conflict') answer = await child.call('replace_match', edit)
        if (answer.isError) throw new Error(answer.text)
        acknowledged.push(n)
      }
    })()
    let failure: unknown
    edits.catch((error) => {
      failure = error
    })
    for (const part of [0.2, 0.5, 0.8]) {
      const reached = (): boolean => a.edits >= part * EDITS && acknowledged.length >= part * EDITS * 0.3
      await until(`${part * 100} % of the edits`, () => failure !== undefined || reached(), {
        ...PATIENCE,
        detail: () => JSON.stringify({ a: a.edits, b: b.edits, mcp: acknowledged.length }),
      })
      if (failure !== undefined) throw failure
      await fixture.killAndStart()
    }
    await edits
    await until('both editors to have done their part', () => a.done && b.done, PATIENCE)

    const marks = ['a', 'b', 'm'].flatMap((label) =>
      Array.from({ length: EDITS }, (_, i) => `<${label}:${i + 1}>`),
    )
    const expected = ['<m:0>', ...marks]
    const room = [...fixture.owner.rooms].find((open) => open.id === id)
    if (!room) throw new Error('the owner has left the room')
    const source = async (): Promise<string> => (await room.call('get_cell', { cell_id: 'c0' })).cell.source
    await until(
      'the room to have all',
      async () => (await source()).length >= expected.join('').length,
      PATIENCE,
    )
    const text = await source()
    expect((text.match(/<[abm]:\d+>/g) ?? []).sort()).toEqual(expected.sort())
    expect(text.replace(/<[abm]:\d+>/g, '')).toBe('')
    for (const one of [a, b]) {
      await until('the editor to have it', async () => (await one.text()).text === text, PATIENCE)
      expect(await one.text()).toMatchObject({ synced: true, unsettled: false })
    }
    const { cell } = (await child.must('get_cell', { cell_id: 'c0' })).structured as {
      cell: { source: string | { chars: number; head: string; tail: string } }
    }
    // Over 8 KiB an agent is shown both ends.
    if (typeof cell.source === 'string') expect(cell.source).toBe(text)
    else {
      const { chars, head, tail } = cell.source
      expect([chars, head, tail]).toEqual([text.length, text.slice(0, head.length), text.slice(-tail.length)])
    }

    // As stored: the next daemon, and the file.
    await fixture.killAndStart()
    expect(await source()).toBe(text)
    await room.save()
    const file = JSON.parse(readFileSync(join(fixture.home.work, 'shared.ipynb'), 'utf8'))
    expect([file.cells[0].source].flat().join('')).toBe(text)
  },
  PATIENCE.timeout * 2,
)
