import { join } from 'node:path'
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { connect } from '../../client/sdk/connect.ts'
import { until } from '../support/until.ts'
import { startChild, withDaemon } from './harness.ts'

test('notebooks, cells and outputs are resources', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const id = String(made.structured.notebook_id)
    const cell = await child.must('create_cell', {
      source: "console.log('x'.repeat(20000)); 42",
      and_run: true,
    })
    const { cell_id } = cell.structured.cell as { cell_id: string }
    const { execution_id } = cell.structured.execution as { execution_id: string }
    const read = async (uri: string) => {
      const { contents } = await child.client.readResource({ uri })
      return contents[0] as { mimeType: string; text: string }
    }
    const { resources } = await child.client.listResources()
    expect(resources.map((resource) => resource.uri)).toEqual([
      'roomd://notebooks',
      `roomd://notebooks/${id}/cells`,
    ])
    const { resourceTemplates } = await child.client.listResourceTemplates()
    expect(resourceTemplates.map((template) => template.uriTemplate)).toEqual([
      'roomd://notebooks/{notebook_id}/cells',
      'roomd://notebooks/{notebook_id}/cells/{cell_id}',
      'roomd://executions/{execution_id}/outputs/{index}',
    ])
    expect(JSON.parse((await read('roomd://notebooks')).text)).toMatchObject({ active: id })
    expect(JSON.parse((await read(`roomd://notebooks/${id}/cells`)).text)).toMatchObject({
      path: join(home.work, 'a.ipynb'),
      capabilities: { mutate: true },
      cells: [{ cell_id }],
    })
    expect(JSON.parse((await read(`roomd://notebooks/${id}/cells/${cell_id}`)).text)).toMatchObject({
      cell: { cell_id, status: 'done' },
    })
    const output = await read(`roomd://executions/${execution_id}/outputs/0`)
    expect(output).toMatchObject({ mimeType: 'text/plain', text: `${'x'.repeat(20000)}\n` })
    await expect(read(`roomd://executions/${execution_id}/outputs/9`)).rejects.toMatchObject({ code: -32002 })
    await expect(read('roomd://nothing')).rejects.toMatchObject({ code: -32002 })
    await expect(read('file:///etc/passwd')).rejects.toMatchObject({ code: -32002 })
  }))

test('subscribers are told of changes, whoever makes them, in active and in other notebooks', () =>
  withDaemon(async (home) => {
    const updated: string[] = []
    const child = await startChild(home, {
      prepare: (client) =>
        client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
          updated.push(params.uri)
        }),
    })
    const other = await connect({ env: home.env, label: 'Ada' })
    try {
      const made = await child.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
      const id = String(made.structured.notebook_id)
      const room = await other.openRoom({ path: join(home.work, 'a.ipynb') })
      const cellId = await room.createCell({ source: '1' })
      const sibling = await room.createCell({ source: '2' })
      const cells = `roomd://notebooks/${id}/cells`
      const cell = `${cells}/${cellId}`
      await child.client.subscribeResource({ uri: cells })
      await child.client.subscribeResource({ uri: cell })
      await room.setSource(sibling, '3')
      await until('the list to change', () => updated.includes(cells))
      expect(updated).not.toContain(cell)
      await (await room.execute(cellId)).done
      await until('the cell to change', () => updated.includes(cell))
      // Switched away: a peer of its own watches on.
      await child.must('create_notebook', { path: 'b.ipynb', kernel: 'javascript' })
      await until('the watching peer', () => room.state.peers.length === 2)
      updated.length = 0
      await room.setSource(cellId, '10')
      await until('the cell to change again', () => updated.includes(cell))
      await child.client.unsubscribeResource({ uri: cells })
      await child.client.unsubscribeResource({ uri: cell })
      await until('nobody to watch', () => room.state.peers.length === 1)
    } finally {
      await other.close()
    }
  }))
