/** An agent in a room of a daemon elsewhere: the MCP target `ws://…`, with a token from the settings or the environment. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tokenFor } from '../../client/mcp/remote-token.ts'
import { startChild } from '../mcp/harness.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { HttpFixture } from './support.ts'

let http: HttpFixture
let id: string
/** Another machine: no daemon runs here. */
let here: TestHome
beforeAll(async () => {
  http = await HttpFixture.start()
  id = await http.room('there.ipynb', ['6 * 7'])
  here = createHome()
})
afterAll(async () => {
  await here.dispose()
  await http.dispose()
})

const target = () => `${http.wsUrl}/?notebook=${id}`

test('works there as it would here, also after that daemon was killed', async () => {
  const child = await startChild(here, { env: { ROOMD_TOKEN: http.ownerToken } })
  const { structured } = await child.must('connect_notebook', { target: target() })
  expect(structured).toMatchObject({ notebook_id: id, status: 'connected' })
  await child.must('set_cell', { cell_id: 'c0', source: '6 * 7 + 1' })
  const run = await child.must('execute_cell', { cell_id: 'c0' })
  expect(run.structured).toMatchObject({ status: 'done', outputs: [{ data: { 'text/plain': '43' } }] })
  await http.killAndStart()
  expect((await child.must('get_cell', { cell_id: 'c0' })).structured).toMatchObject({
    cell: { source: '6 * 7 + 1' },
  })
  await child.close()
})

test('is refused with what to do: without a token, with a wrong one, with one that only reads', async () => {
  const without = await startChild(here)
  const answer = await without.call('connect_notebook', { target: target() })
  expect(answer.structured.error?.code).toBe('unauthorized')
  await without.close()

  const { token } = await http.token({ scope: 'viewer', notebook_id: id })
  const viewer = await startChild(here, { env: { ROOMD_TOKEN: token } })
  expect((await viewer.must('connect_notebook', { target: target() })).structured).toMatchObject({
    capabilities: { read: true, mutate: false, execute: false },
  })
  const edit = await viewer.call('set_cell', { cell_id: 'c0', source: 'x' })
  expect(edit.structured.error?.code).toBe('forbidden')
  await viewer.close()
})

test('tokens of the settings go to the daemon they are for, and to no other', () => {
  mkdirSync(here.places.config, { recursive: true })
  const file = join(here.path, 'lab-token')
  writeFileSync(file, 'from-a-file\n')
  writeFileSync(
    join(here.places.config, 'config.json'),
    JSON.stringify({
      remotes: {
        lab: { url: 'wss://lab.example', token_file: file },
        box: { url: 'ws://127.0.0.1:8800', token_env: 'BOX_TOKEN' },
      },
    }),
  )
  const env = { ROOMD_HOME: here.path, BOX_TOKEN: 'from-the-environment', ROOMD_TOKEN: 'general' }
  expect(tokenFor('wss://lab.example/', env)).toBe('from-a-file')
  expect(tokenFor('ws://127.0.0.1:8800/', env)).toBe('from-the-environment')
  expect(tokenFor('ws://127.0.0.1:9900/', env)).toBe('general')
  expect(tokenFor('wss://evil.example/', env)).toBe(undefined)
  expect(tokenFor('wss://far.example/', { ...env, ROOMD_TOKEN_URL: 'wss://far.example' })).toBe('general')
  expect(tokenFor('ws://127.0.0.1:9900/', { ...env, ROOMD_TOKEN_URL: 'wss://far.example' })).toBe(undefined)
  expect(() => tokenFor('ws://127.0.0.1:8800/', { ROOMD_HOME: here.path })).toThrow(/BOX_TOKEN is not set/)
})
