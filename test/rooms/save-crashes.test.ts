/** A real daemon that is killed between every two steps of saving. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/index.ts'
import type { CellId } from '../../protocol/ids.ts'
import { startDaemon } from '../support/daemon.ts'
import { withHome } from '../support/home.ts'
import { within } from '../support/until.ts'

const before = `{
  "cells": [
    {"cell_type": "code", "source": "x = 1", "metadata": {"z": 1e-05, "a": [1,2]}, "outputs": [], "execution_count": null},
    {"cell_type": "markdown", "source": ["# T\\n", "\\u00e9"], "metadata": {}}
  ],
  "metadata": {}, "nbformat": 4, "nbformat_minor": 4
}`
const after = before.replace('"x = 1"', '"x = 2"')

test.each([
  ['save:announced', before],
  ['save:created', before],
  ['save:written', before],
  ['save:synced', before],
  ['save:renamed', after],
  ['save:replaced', after],
])('killed at %s', async (point, expected) => {
  await withHome(async (home) => {
    const path = join(home.work, 'a.ipynb')
    writeFileSync(path, before)
    const first = await startDaemon(home, { ROOMD_TEST_FAULT: point })
    const client = await connect({ env: home.env, label: 'test', waitMs: 60_000 })
    const room = await client.openRoom({ path })
    const cell = room.state.cells[0]?.cell_id as CellId
    await room.setSource(cell, 'x = 2')
    const saving = room.save()
    await within('the daemon to be killed', first.exited)
    expect(readFileSync(path, 'utf8')).toBe(expected)

    // The client asks again by itself, under the same mutation id.
    await startDaemon(home)
    expect(await within('the save', saving)).toMatchObject({ path })
    expect(readFileSync(path, 'utf8')).toBe(after)
    expect(readdirSync(home.work)).toEqual(['a.ipynb'])
    expect(await room.call('source_status', {})).toMatchObject({ source_state: 'ready', conflicts: [] })
    expect(room.state.cell(cell)?.source).toBe('x = 2')
    await client.close()
  })
})

test('killed after an acknowledged edit and before autosave: the file gets it from the next daemon', async () => {
  await withHome(async (home) => {
    const path = join(home.work, 'a.ipynb')
    writeFileSync(path, before)
    const first = await startDaemon(home)
    const client = await connect({ env: home.env, label: 'test' })
    const room = await client.openRoom({ path })
    await room.setSource(room.state.cells[0]?.cell_id as CellId, 'x = 2')
    await first.kill9()
    expect(readFileSync(path, 'utf8')).toBe(before)
    await startDaemon(home)
    const saved = await within('autosave', room.save())
    expect(saved).toMatchObject({ doc_seq: 1 })
    expect(readFileSync(path, 'utf8')).toBe(after)
    await client.close()
  })
})
