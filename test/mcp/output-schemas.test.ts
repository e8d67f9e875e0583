/**
 * What every tool really answers, against the schema that it lists: results and errors, and no field that the schema does not name.
 * A tool without a call here fails the last check.
 */
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { expect, test } from 'vitest'
import { type Child, startChild, withDaemon } from './harness.ts'

type Structured = Record<string, unknown>

/** Calls tools and checks what they answer; remembers which. */
class Checked {
  readonly called = new Set<string>()
  readonly #child: Child
  readonly #validator = new AjvJsonSchemaValidator()

  constructor(child: Child) {
    this.#child = child
  }

  async must(name: string, args: Structured = {}): Promise<Structured> {
    const { structured } = await this.#child.must(name, args)
    this.called.add(name)
    this.#check(name, structured)
    expect(structured, name).not.toHaveProperty('error')
    return structured
  }

  async fails(name: string, args: Structured): Promise<void> {
    const { isError, structured } = await this.#child.call(name, args)
    expect(isError, name).toBe(true)
    this.#check(name, structured)
    expect(Object.keys(structured)).toEqual(['error'])
    expect(structured.error, name).toMatchObject({
      code: expect.any(String),
      message: expect.any(String),
      retryable: expect.any(Boolean),
    })
  }

  #check(name: string, structured: Structured): void {
    const schema = this.#child.tools.find((tool) => tool.name === name)?.outputSchema
    if (!schema) throw new Error(`${name} lists no output schema`)
    const { valid, errorMessage } = this.#validator.getValidator(schema as never)(structured)
    expect(valid, `${name}: ${errorMessage}\n${JSON.stringify(structured)}`).toBe(true)
    unnamed(schema as Schema, structured, name)
  }
}

interface Schema {
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  additionalProperties?: unknown
}

/** Throws for a field that no branch of the schema names. Free-form objects (metadata, mime bundles) name none. */
function unnamed(schema: Schema, value: unknown, at: string): void {
  const branches = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]
  if (Array.isArray(value)) {
    const items = branches.flatMap((branch) => branch.items ?? [])
    for (const [index, item] of value.entries()) unnamed({ anyOf: items }, item, `${at}[${index}]`)
    return
  }
  if (typeof value !== 'object' || value === null) return
  const named = branches.filter((branch) => branch.properties)
  if (named.length === 0) return
  for (const [field, inner] of Object.entries(value)) {
    const found = named.flatMap((branch) => branch.properties?.[field] ?? [])
    if (found.length === 0) throw new Error(`${at}.${field} is in the result and not in the schema`)
    unnamed({ anyOf: found }, inner, `${at}.${field}`)
  }
}

test('every result and every error satisfies the schema that its tool lists', () =>
  withDaemon(async (home) => {
    const child = await startChild(home, { title: 'Claude Code' })
    const tool = new Checked(child)
    const idOf = ({ cell }: Structured) => (cell as { cell_id: string }).cell_id
    await tool.must('daemon_status')
    await tool.must('list_active_notebooks')
    const made = await tool.must('create_notebook', { path: 'a.ipynb', kernel: 'javascript' })
    const cell = idOf(await tool.must('create_cell', { source: 'console.log(6 * 7)', and_run: true }))
    const other = idOf(
      await tool.must('create_cell', { source: '# T', cell_type: 'markdown', after_cell_id: null }),
    )
    await tool.must('create_cell', {
      source:
        "console.log('x'.repeat(50000)); console.error('e'); display({ 'text/html': '<b>'.repeat(9000), 'image/png': 'iVBORw0KGgo=', 'application/json': { a: [1] } }, { raw: true })",
      and_run: true,
    })
    const failing = idOf(await tool.must('create_cell', { source: "throw new Error('no')", and_run: true }))
    await tool.must('set_cell', { cell_id: cell, source: 'console.log(6 * 8)', and_run: true })
    await tool.must('replace_match', { cell_id: cell, match: '8', content: '9' })
    await tool.must('replace_regex', { cell_id: cell, pattern: '9', content: '1', and_run: true })
    await tool.must('set_cell_metadata', { cell_id: cell, metadata: { tags: ['a'], deep: { b: null } } })
    await tool.must('move_cell', { cell_id: other, after_cell_id: cell })
    const ran = await tool.must('execute_cell', { cell_id: cell })
    await tool.must('get_results', { execution_id: ran.execution_id })
    await tool.must('get_results', { execution_id: ran.execution_id, full_output: true })
    await tool.must('get_cell', { cell_id: cell })
    await tool.must('get_cell', { cell_id: cell, full_output: true })
    await tool.must('get_cell', { cell_id: failing })
    await tool.must('get_all_cells')
    await tool.must('get_all_cells', { format: 'full', count: 2 })
    await tool.must('run_all_cells', { on_error: 'continue' })
    await tool.must('run_all_cells', { wait: false })
    await tool.must('list_executions')
    await tool.must('cancel_execution', { execution_id: ran.execution_id })
    await tool.must('inspect', { code: 'console', cursor: 3 })
    await tool.must('complete', { code: 'consol', cursor: 6 })
    await tool.must('interrupt_kernel')
    await tool.must('delete_cell', { cell_id: failing })
    await tool.must('clear_outputs', { cell_ids: [cell] })
    await tool.must('clear_outputs')
    await tool.must('get_source_status')
    await tool.must('reconcile_source', { keep: 'room' })
    await tool.must('save_notebook')
    await tool.must('show_notebook')
    await tool.must('restart_kernel')
    const asking = await tool.must('create_cell', {
      source: "await input('name? ')",
      and_run: true,
      timeout_secs: 20,
    })
    const { execution_id, status } = asking.execution as { execution_id: string; status: string }
    expect(status).toBe('waiting_for_input')
    await tool.must('send_input', { execution_id, value: 'Ada' })
    await tool.must('list_active_notebooks')
    await tool.must('list_notebooks', { limit: 5 })
    await tool.must('create_notebook', {})
    await tool.must('list_active_notebooks')
    await tool.must('connect_notebook', { notebook_id: made.notebook_id })
    await tool.must('connect_notebook', { path: 'a.ipynb' })
    await tool.must('disconnect_notebook')

    for (const { name } of child.tools) await tool.fails(name, { no_such_argument: 1 })
    for (const name of ['get_cell', 'set_cell', 'execute_cell', 'delete_cell', 'replace_match']) {
      await tool.fails(name, { cell_id: 'x', source: 'y', match: 'a', content: 'b' })
      await tool.fails(name, { cell_id: 'x', ...(name === 'set_cell' ? { source: 'y' } : {}) })
    }
    await tool.fails('get_results', { execution_id: 'none' })
    await tool.fails('connect_notebook', { path: 'missing.ipynb' })
    // Answered by the proxy, which this child has none of.
    tool.called.add('reconnect')
    // Projects and the ledger have tests of their own.
    const others = /^(session_|list_projects$|claim_room$|pool_status$)/
    const ours = child.tools.map(({ name }) => name).filter((name) => !others.test(name))
    expect(ours.filter((name) => !tool.called.has(name))).toEqual([])
  }))
