import { expect, test } from 'vitest'
import { readArguments } from '../../client/mcp/tools/arguments.ts'
import { findTool } from '../../client/mcp/tools/table.ts'

function read(name: string, given: unknown) {
  const tool = findTool(name)
  if (!tool) throw new Error(name)
  return readArguments(tool, given)
}

test.each([
  ['true', true],
  ['True', true],
  ['false', false],
  ['0', false],
  [true, true],
])('a boolean given as %j is %j', (given, expected) => {
  expect(read('create_cell', { and_run: given })).toMatchObject({ and_run: expected })
})

test.each([
  ['["a", "b"]', ['a', 'b']],
  ["['a', 'b']", ['a', 'b']],
  ["('a',)", ['a']],
  ["['it\\'s', \"b\"]", ["it's", 'b']],
  ['[a, b]', ['a', 'b']],
  ['a', ['a']],
  ['', []],
  ['[]', []],
  [['a'], ['a']],
])('a list given as %j is %j', (given, expected) => {
  expect(read('clear_outputs', { cell_ids: given })).toEqual({ cell_ids: expected })
})

test('numbers, objects and null given as text are what they say', () => {
  expect(read('execute_cell', { cell_id: 'a', timeout_secs: '5' })).toMatchObject({ timeout_secs: 5 })
  expect(read('set_cell_metadata', { cell_id: 'a', metadata: '{"tags": ["x"]}' })).toMatchObject({
    metadata: { tags: ['x'] },
  })
  expect(read('move_cell', { cell_id: 'a', after_cell_id: 'null' })).toEqual({
    cell_id: 'a',
    after_cell_id: null,
  })
})

test('the ledger takes a boolean for a number, as the server does whose tools it has; a notebook tool does not', () => {
  expect(read('session_list', { limit: true })).toMatchObject({ limit: 1 })
  expect(read('session_accumulate', { session_id: 's', complexity: true, context_pct: false })).toMatchObject(
    {
      complexity: 1,
      context_pct: 0,
    },
  )
  expect(read('session_list', { limit: 2.0 })).toMatchObject({ limit: 2 })
  expect(() => read('session_list', { limit: false })).toThrow('limit')
  expect(() => read('session_list', { limit: 2.5 })).toThrow('limit')
  expect(() => read('execute_cell', { cell_id: 'a', timeout_secs: true })).toThrow('timeout_secs')
})

test('text stays text, whatever it looks like', () => {
  expect(read('create_cell', { source: 'true' })).toMatchObject({ source: 'true' })
  expect(read('send_input', { execution_id: 'e', value: '42' })).toEqual({ execution_id: 'e', value: '42' })
})

test('null for an argument that takes none is as if it were left out', () => {
  expect(read('get_all_cells', { notebook: null, start: null })).toEqual({
    format: 'summary',
    start: 0,
    count: 100,
  })
  expect(read('create_cell', { source: 'x', after_cell_id: null })).toMatchObject({ after_cell_id: null })
})

test('defaults are filled in', () => {
  expect(read('execute_cell', { cell_id: 'a' })).toEqual({
    cell_id: 'a',
    timeout_secs: 30,
    on_error: 'stop',
    cancel: 'interrupt',
  })
})

test('arguments that do not exist are refused with those that do, and a hint', () => {
  const refused = () => read('get_cell', { index: 3 })
  expect(refused).toThrow(/no argument "index"/)
  expect(refused).toThrow(/cell_id, full_output\?, offset\?, notebook\?/)
  expect(refused).toThrow(/named by cell_id/)
})

test('what is missing or wrong is named', () => {
  expect(() => read('get_cell', {})).toThrow(/"cell_id" is missing/)
  expect(() => read('get_all_cells', { count: 'many' })).toThrow(/"count"/)
  expect(() => read('reconcile_source', { keep: 'mine' })).toThrow(/"keep"/)
  expect(() => read('list_notebooks', [1])).toThrow(/no object/)
})
