import { afterAll, beforeAll, expect, test } from 'vitest'
import { KernelClient, outputsOf } from './kernel-client.ts'

let kernel: KernelClient
beforeAll(async () => {
  kernel = await KernelClient.start()
})
afterAll(() => kernel.dispose())

const png = "Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(20)])"

test.each([
  ["display({ 'text/html': '<b>x</b>' })", { 'text/html': '<b>x</b>' }],
  ["display({ 'custom/thing': 'x' }, { raw: true })", { 'custom/thing': 'x' }],
  ['display({ a: 1 })', { 'text/plain': '{ a: 1 }' }],
  ["display('s')", { 'text/plain': "'s'" }],
  ["display.html('<i></i>')", { 'text/html': '<i></i>' }],
  ['display.json({ a: [1] })', { 'application/json': { a: [1] } }],
  [
    `display(${png})`,
    { 'text/plain': '<image/png, 28 bytes>', 'image/png': expect.stringMatching(/^iVBORw0KGgo/) },
  ],
  [`display.png(${png})`, { 'image/png': expect.stringMatching(/^iVBORw0KGgo/) }],
  [
    "display({ [Symbol.for('Jupyter.display')]() { return { 'text/markdown': '# x' } } })",
    { 'text/plain': expect.anything(), 'text/markdown': '# x' },
  ],
  ["display({ toHTML() { return '<p>' } })", { 'text/plain': expect.anything(), 'text/html': '<p>' }],
  [
    "display({ outerHTML: '<svg></svg>' })",
    { 'text/plain': expect.anything(), 'image/svg+xml': '<svg></svg>' },
  ],
])('%s', async (code, data) => {
  const run = await kernel.execute(code)
  expect(run.reply.status).toBe('ok')
  expect(outputsOf(run, 'display_data')).toEqual([{ data, metadata: {}, transient: {} }])
  expect(outputsOf(run, 'execute_result')).toEqual([])
})

test('rich values are rich as results too', async () => {
  const run = await kernel.execute(
    "({ [Symbol.for('Jupyter.display')]() { return { 'text/html': '<p>' } } })",
  )
  expect(outputsOf(run, 'execute_result')[0]?.data).toMatchObject({
    'text/html': '<p>',
    'text/plain': expect.anything(),
  })
})

test('a display with an id is updated by its handle, by option and from later cells', async () => {
  const first = await kernel.execute(
    "const handle = display('one', { display_id: 'd1' }); handle.update('two')",
  )
  expect(outputsOf(first, 'display_data')[0]?.transient).toEqual({ display_id: 'd1' })
  expect(outputsOf(first, 'update_display_data')).toEqual([
    { data: { 'text/plain': "'two'" }, metadata: {}, transient: { display_id: 'd1' } },
  ])
  const later = await kernel.execute("display('three', { display_id: 'd1', update: true })")
  expect(outputsOf(later, 'update_display_data')[0]?.data).toEqual({ 'text/plain': "'three'" })
  expect((await kernel.execute('display(1, { update: true })')).reply.ename).toBe('TypeError')
  expect(await kernel.value('typeof display(1, { display_id: true }).display_id')).toBe("'string'")
})

test('metadata is passed on', async () => {
  const run = await kernel.execute("display(1, { metadata: { 'image/png': { width: 3 } } })")
  expect(outputsOf(run, 'display_data')[0]?.metadata).toEqual({ 'image/png': { width: 3 } })
})

test('output can be cleared', async () => {
  const run = await kernel.execute('clearOutput(); clearOutput({ wait: true }); console.clear()')
  expect(outputsOf(run, 'clear_output')).toEqual([{ wait: false }, { wait: true }, { wait: false }])
})
