/**
 * Projects as their clients have them: over the real socket, with the SDK, with the least that the protocol asks for, and as an agent
 * reads them from an MCP child. All share one daemon, which the last one kills.
 */
import { spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Client, connect } from '../../client/sdk/index.ts'
import { FrameType } from '../../protocol/frames.ts'
import { programFile } from '../../protocol/programs.ts'
import type { Claim, DaemonEvent } from '../../protocol/projects.ts'
import { largeNotebook } from '../bench/large-notebook.ts'
import { startChild } from '../mcp/harness.ts'
import { TestClient } from '../server/harness.ts'
import { roomd } from '../support/command.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { createHome, type TestHome } from '../support/home.ts'
import { alive } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Repository } from './repository.ts'

/** It may send again whatever it has sent. */
const ONE = { clientInstance: 'client-one', settledBelow: () => 1 }
/** Ids of two claims that are sent again. */
const WORKED = 1_000
const DRAFT = 1_001

let home: TestHome
let daemon: TestDaemon
let client: Client
let other: Client
/** It has not asked for events beyond its rooms. */
let deaf: TestClient
let project: string
const heard: DaemonEvent[] = []
const heardByOther: DaemonEvent[] = []

beforeAll(async () => {
  home = createHome()
  daemon = await startDaemon(home)
  client = await connect({ env: home.env, label: 'one', kind: 'cli', ...ONE })
  other = await connect({ env: home.env, label: 'two', clientInstance: 'client-two', kind: 'cli' })
  deaf = await TestClient.connect(home.places.socket)
  client.on('event', (event) => heard.push(event))
  other.on('event', (event) => heardByOther.push(event))
  project = await add('one', { depth: 1 })
})

afterAll(async () => {
  await Promise.all([client?.close(), other?.close()])
  deaf?.wire.destroy()
  await home?.dispose()
})

async function add(name: string, own: { depth: number; setup?: string[] }): Promise<string> {
  const made = new Repository(join(home.work, name))
  made.commit({ 'a.txt': 'a\n' })
  const settings = { source: made.folder, kernel: 'javascript', trust: true, ...own }
  return (await client.call('add_project', settings)).project.id
}

function told<T extends DaemonEvent['type']>(events: readonly DaemonEvent[], type: T) {
  return events.filter((event): event is Extract<DaemonEvent, { type: T }> => event.type === type)
}

/** The pooled room of the project, once its kernel runs. */
async function ready() {
  return until(
    'a warm room',
    async () => {
      const { projects } = await client.call('pool_status', {})
      const slots = projects.find((each) => each.project === project)?.slots ?? []
      return slots.find(({ state, standby }) => state === 'pooled' && standby === 'ready')
    },
    { timeout: 60_000, every: 50 },
  )
}

const claim = (mutationId: number, by = client) =>
  by.call('claim_room', { project, interactive: false }, { mutationId })

test('a warm room and a failed warming are told to every client that wants to hear it, and to no other', async () => {
  const slot = await ready()
  for (const events of [heard, heardByOther]) {
    await until('word of the warm room', () => told(events, 'project_warm_ready').length > 0)
    expect(told(events, 'project_warm_ready')).toEqual([
      { type: 'project_warm_ready', project, notebook_id: slot.notebook_id },
    ])
    expect(new Set(told(events, 'projects_changed').map((event) => event.project))).toEqual(
      new Set([project]),
    )
  }
  const failing = await add('failing', { depth: 1, setup: ['echo no such package; exit 3'] })
  const failed = await until('word of the failure', () => told(heard, 'project_warm_failed')[0])
  expect(failed).toMatchObject({ project: failing, retry_in_ms: 1000 })
  expect(failed.reason).toContain('no such package')
  expect(deaf.received.filter(({ type }) => type === FrameType.EVENT)).toEqual([])
})

test('a second daemon that is started by mistake leaves, and touches no standby', async () => {
  const slot = await ready()
  const second = spawn(process.execPath, [programFile('daemon')], { env: home.env, stdio: 'ignore' })
  expect(await new Promise((resolve) => second.once('exit', resolve))).toBe(0)
  expect(await ready()).toEqual(slot)
  expect(alive(slot.pid ?? 0)).toBe(true)
})

test('a claim under one mutation id is one room: sent again, and by another process of the same client at the same moment', async () => {
  const slot = await ready()
  const first = await claim(WORKED)
  expect(first).toMatchObject({ notebook_id: slot.notebook_id, claim: 'warm', standby: 'ready' })
  expect(await claim(WORKED)).toEqual(first)
  const process = await connect({ env: home.env, kind: 'cli', ...ONE })
  const [one, same] = await Promise.all([claim(DRAFT), claim(DRAFT, process)])
  await process.close()
  expect(one).toEqual(same)
  expect(one.notebook_id).not.toBe(first.notebook_id)
})

test('a room that somebody begins to work in comes into lists, and that is told; what becomes of a draft, to whose it was', async () => {
  const { notebook_id } = await claim(WORKED)
  expect(told(heard, 'rooms_changed')).toEqual([])
  const room = await client.openRoom({ notebook_id })
  const { execution } = await (await room.execute({ code: 'globalThis.kept = 42' })).done
  expect(execution.status).toBe('done')
  expect(told(heard, 'rooms_changed')).toEqual([{ type: 'rooms_changed', notebook_id }])
  const { rooms } = await client.call('list_rooms', { inactive: true })
  expect(rooms.map((each) => each.notebook_id)).toEqual([notebook_id])

  // So are notebooks of no project, what they are called, and their end.
  const changes = (id: string) =>
    told(heard, 'rooms_changed').filter((event) => event.notebook_id === id).length
  const plain = await other.openRoom({ create: { kernel: 'javascript', working_dir: home.work } })
  await until('word of a new one', () => changes(plain.id) === 1)
  await plain.createCell({ source: '1' })
  await plain.save(join(home.work, 'named.ipynb'))
  await until('word of its name', () => changes(plain.id) === 2)
  await other.call('close_room', { notebook_id: plain.id })
  await until('word of its end', () => changes(plain.id) === 3)
  writeFileSync(join(home.work, 'large.ipynb'), largeNotebook(100))
  const large = await other.openRoom({ path: join(home.work, 'large.ipynb') })
  await until('word of one with a large file', () => changes(large.id) === 1)
  expect(changes(notebook_id)).toBe(1)

  const gone = await add('gone', { depth: 0 })
  const draft = await client.call('claim_room', { project: gone, interactive: true })
  await client.call('remove_project', { project: gone })
  const retired = await until('word of the draft', () => told(heard, 'draft_retired')[0])
  expect(retired).toMatchObject({ notebook_id: draft.notebook_id, client_instance: 'client-one' })
  expect(retired.reason).toContain('removed')
  expect(deaf.received.filter(({ type }) => type === FrameType.EVENT)).toEqual([])
})

test('an agent reads projects and pool by MCP, claims a room, works in it, and is never given its own again', async () => {
  const child = await startChild(home, { name: 'claude-code', title: 'Claude Code' })
  try {
    const listed = await child.must('list_projects')
    expect(listed.structured.projects).toMatchObject([
      { id: project, name: 'one', trusted: true, status: 'ready' },
      { name: 'failing' },
    ])
    expect(listed.text).toMatch(/^one {2}\/.*ready, trusted$/m)
    // It is tried again meanwhile, now and then.
    const pool = await until('the pool between two attempts', async () => {
      const status = await child.must('pool_status')
      return /^failing: none/m.test(status.text) && status
    })
    expect(pool.structured.projects).toMatchObject([
      { name: 'one', depth: 1 },
      { name: 'failing', slots: [] },
    ])
    expect(pool.text).toMatch(/^failing: none.*no such package[\s\S]*tried again in \d+ s/m)
    expect(pool.text).toMatch(/^Memory of kernels: /m)

    // By a path, relative to where the agent is; it becomes the active notebook, and cells run in it.
    const claimed = await child.must('claim_room', { project: './one' })
    const given = claimed.structured as unknown as Claim
    expect(claimed.text).toMatch(/^Claimed a room of one \((?:warm|joined|cold); /)
    expect(claimed.text).toContain(given.workspace)
    expect(existsSync(join(given.workspace, 'a.txt'))).toBe(true)
    const ran = await child.must('create_cell', {
      source: 'require("node:fs").readFileSync("a.txt", "utf8")',
      and_run: true,
    })
    expect(ran.text).toContain("'a\\n'")
    // Without activating the active one stays.
    const next = await child.must('claim_room', { project: 'one', activate: false })
    expect(next.structured.notebook_id).not.toBe(given.notebook_id)
    expect((await child.must('list_active_notebooks')).structured.active).toBe(given.notebook_id)

    const unknown = await child.call('claim_room', { project: 'nobody' })
    expect(unknown.isError).toBe(true)
    expect(unknown.structured.error).toMatchObject({ code: 'not_found', next: { tool: 'list_projects' } })
  } finally {
    await child.close()
  }
})

test('an archived room: files and commits are kept, its notebook can be read over socket, MCP and terminal, and takes nothing', async () => {
  const given = await claim(2_000)
  const { notebook_id } = given
  const room = await client.openRoom({ notebook_id })
  await (await room.execute(await room.createCell({ source: '6 * 7' }))).done
  writeFileSync(join(given.workspace, 'result.csv'), '42')
  const child = await startChild(home, {})
  try {
    const inside = await roomd(home, ['project', 'archive', notebook_id])
    expect(inside.code).not.toBe(0)
    expect(inside.stderr).toMatch(/somebody is in room .*--force/)
    await room.close()
    const done = await roomd(home, ['project', 'archive', notebook_id.slice(0, 13)])
    expect(done).toMatchObject({ code: 0, stderr: '' })
    const kept = /kept in (\S+)/.exec(done.stdout)?.[1] ?? ''
    expect(existsSync(join(kept, 'result.csv'))).toBe(true)
    expect(existsSync(given.workspace)).toBe(false)
    // Sent again, by whoever: the same.
    expect(await client.call('archive_room', { notebook_id, force: false })).toEqual({ notebook_id, kept })

    const read = await client.openRoom({ notebook_id })
    const refused = { code: 'notebook_unavailable', message: expect.stringMatching(/archived/) }
    await expect(read.createCell({ source: '1' })).rejects.toMatchObject(refused)
    await expect(read.execute({ code: '1' })).rejects.toMatchObject(refused)
    // A copy is no change.
    await read.save(join(home.work, 'copy.ipynb'))
    expect(read.state.source.path).toBeNull()
    await read.close()

    const connected = await child.must('connect_notebook', { notebook_id })
    expect(connected.text).toMatch(/the room is archived; claim another room/)
    expect(connected.structured.capabilities).toEqual({ read: true, mutate: false, execute: false })
    const cells = await child.must('get_all_cells')
    expect(cells.text).toContain('42')
    const ran = await child.call('create_cell', { source: '1', and_run: true })
    expect(ran.structured.error).toMatchObject({ code: 'notebook_unavailable' })
    expect(ran.text).toMatch(/archived.*claim another room/)
  } finally {
    await child.close()
  }
})

test('after the daemon was killed a claim sent again is the same room if somebody worked in it, else a new one, once', async () => {
  const worked = await claim(WORKED)
  const draft = await claim(DRAFT)
  await daemon.kill9()
  await startDaemon(home)
  expect(await claim(WORKED)).toEqual(worked)
  const anew = await claim(DRAFT)
  expect(anew.notebook_id).not.toBe(draft.notebook_id)
  expect(await claim(DRAFT)).toEqual(anew)
  expect(existsSync(draft.workspace)).toBe(false)
  const room = await client.openRoom({ notebook_id: worked.notebook_id })
  const { execution } = await (await room.execute({ code: 'kept' })).done
  expect(JSON.stringify(execution.outputs)).toContain('42')
})
