/** Notebooks keep the state of widgets in their metadata: more than fits into OPENED. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import { Opened, Projection } from '../../protocol/channels.ts'
import { FrameType } from '../../protocol/frames.ts'
import { startDaemon } from '../support/daemon.ts'
import { createHome } from '../support/home.ts'
import { until } from '../support/until.ts'
import { makeRooms, opening, RememberingChannel } from './fixture.ts'

const kernelspec = { name: 'javascript', display_name: 'JavaScript', language: 'javascript' }
const cells = [{ cell_type: 'code', id: 'a', metadata: {}, outputs: [], execution_count: null, source: '1' }]
/** Read at once, read by the file worker, and more than all that one frame carries. */
const SIZES = [70_000, 300_000, 3_000_000]

function notebook(folder: string, size: number): { path: string; metadata: Record<string, unknown> } {
  const path = join(folder, `${size}.ipynb`)
  const metadata = { kernelspec, widgets: { state: 'w'.repeat(size) } }
  writeFileSync(path, JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }))
  return { path, metadata }
}

test('metadata that do not fit into OPENED follow it before the cells, and after a gap', async () => {
  const fixture = await makeRooms()
  onTestFinished(() => fixture.dispose())
  for (const size of SIZES) {
    const { path, metadata } = notebook(fixture.folder, size)
    const channel = new RememberingChannel()
    const peer = await fixture.rooms.attach(opening({ path }, 'open'), fixture.context(), channel)
    const pages = (): Projection[] => channel.of(FrameType.PROJECTION).map((value) => Projection.parse(value))
    const whole = (): boolean => pages().some((page) => page.kind === 'cells' && page.last)
    await until('the picture', whole)
    for (const opened of channel.of(FrameType.OPENED))
      expect(Opened.parse(opened)).toMatchObject({ metadata: { kernelspec }, metadata_follows: true })
    expect(pages().at(-2)).toEqual({ kind: 'metadata', metadata })

    // It reads nothing for a while, and is shown all of it again.
    channel.room = 0
    const operations = [{ op: 'set_source', cell_id: 'a', source: '2' }]
    await peer.request('edit', { operations }, fixture.context())
    channel.told.length = 0
    channel.room = Number.POSITIVE_INFINITY
    channel.writable()
    await until('the picture again', whole)
    expect(pages()).toContainEqual({ kind: 'metadata', metadata })
    peer.detach('done')
  }
})

test('a client has them with its first state, after another start of the daemon too', async () => {
  const home = createHome()
  onTestFinished(() => home.dispose())
  const daemon = await startDaemon(home)
  const client = await connect({ env: home.env })
  onTestFinished(() => client.close())
  const made = SIZES.map((size) => notebook(home.work, size))
  const rooms = await Promise.all(made.map(({ path }) => client.openRoom({ path })))
  expect(rooms.map((room) => room.state.metadata)).toEqual(made.map(({ metadata }) => metadata))
  await daemon.stop()
  const next = await startDaemon(home)
  onTestFinished(() => next.stop())
  const later = await connect({ env: home.env })
  onTestFinished(() => later.close())
  for (const { path, metadata } of made)
    expect((await later.openRoom({ path })).state.metadata).toEqual(metadata)
  await until('those who were there before to be back', () =>
    rooms.every((room) => room.state.attachment === 'attached'),
  )
  expect(rooms.map((room) => room.state.metadata)).toEqual(made.map(({ metadata }) => metadata))
})
