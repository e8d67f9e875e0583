import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startChild, withDaemon } from '../mcp/harness.ts'

interface Context {
  rooms: Array<{
    notebook_id: string
    path: string | null
    cells_run: number
    cells_failed: number
    connect: { tool: string; arguments: Record<string, string> }
  }>
  ancestors: Array<{ session_id: string; summary: string }>
  work_items: Array<{ description: string }>
}

test('create, work in a notebook, finalize, /clear: the new child goes back by the call that the context names', () =>
  withDaemon(async (home) => {
    const first = await startChild(home)
    const { structured: made } = await first.must('session_create', {
      project: 'shop',
      prompt: 'Compute totals',
    })
    const session_id = String(made.session_id)
    const path = join(home.work, 'totals.ipynb')
    await first.must('create_notebook', { path, kernel: 'javascript' })
    await first.must('create_cell', { source: 'const answer = 41 + 1', and_run: true, timeout_secs: 30 })
    await first.must('create_cell', { source: 'throw new Error("no")', and_run: true, timeout_secs: 30 })
    await first.must('session_add_work_item', { session_id, description: 'look at the error' })
    const { structured: final } = await first.must('session_finalize', { session_id })
    expect(final).toMatchObject({
      success: true,
      requests: 0,
      tools: 3,
      notebooks: [path],
      cells_run: 2,
      cells_failed: 1,
    })
    await first.close()

    // After /clear: a new child, a new session, and nothing remembered.
    const second = await startChild(home)
    const { structured: next } = await second.must('session_create', { project: 'shop', prompt: 'go on' })
    await second.must('session_link', { child_id: next.session_id, parent_id: session_id })
    const answer = await second.must('session_get_context', { session_id: next.session_id })
    const context = answer.structured as unknown as Context
    expect(context.ancestors).toEqual([
      expect.objectContaining({ session_id, summary: expect.stringContaining('1 notebook, 2 cells run') }),
    ])
    expect(context.work_items).toEqual([expect.objectContaining({ description: 'look at the error' })])
    expect(context.rooms).toEqual([expect.objectContaining({ path, cells_run: 2, cells_failed: 1 })])
    const [room] = context.rooms
    const back = await second.must(room?.connect.tool ?? '', room?.connect.arguments)
    expect(back.structured).toMatchObject({ notebook_id: room?.notebook_id, path })
    const cell = await second.must('create_cell', { source: 'answer', and_run: true, timeout_secs: 30 })
    expect(JSON.stringify(cell.structured)).toContain('42')
  }))

test('a room that was active before the session began is one of its rooms', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const { structured: notebook } = await child.must('create_notebook', { kernel: 'javascript' })
    const { structured: made } = await child.must('session_create', {})
    const { structured } = await child.must('session_get_context', { session_id: made.session_id })
    expect((structured as unknown as Context).rooms).toEqual([
      expect.objectContaining({
        notebook_id: notebook.notebook_id,
        connect: { tool: 'connect_notebook', arguments: { notebook_id: notebook.notebook_id } },
      }),
    ])
  }))

test('a new child of the same client counts for the same session, and a repeated call is counted once', () =>
  withDaemon(async (home) => {
    const env = { ROOMD_CLIENT_INSTANCE: 'client-of-the-test' }
    const first = await startChild(home, { env })
    const meta = (base: number) => ({ meta: { 'roomd/mutation': base, 'roomd/settled': 1 } })
    const { structured: made } = await first.must('session_create', {}, meta(64))
    await first.must('create_notebook', { kernel: 'javascript' }, meta(128))
    await first.close()
    const second = await startChild(home, { env })
    await second.must('create_notebook', { kernel: 'javascript' }, meta(128))
    await second.must('create_cell', { source: '1' }, meta(192))
    const { structured: final } = await second.must(
      'session_finalize',
      { session_id: made.session_id },
      meta(256),
    )
    expect(final).toMatchObject({ tools: 2 })
  }))

test('answers are the JSON of the reference, as text and structured, and failures are no errors of MCP', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const saved = await child.must('session_save', {
      session_id: 's',
      data_type: 'summary',
      content: 'ü',
      project: 'p',
    })
    expect(saved.content).toHaveLength(1)
    expect(JSON.parse(saved.text)).toEqual(saved.structured)
    const loaded = await child.must('session_load', { session_id: 's', data_type: 'summary', project: 'p' })
    expect(loaded.text).toContain('"data": "\\u00fc"')
    expect(loaded.text.split('\n')[1]).toMatch(/^ {2}"success": true,$/)
    const failed = await child.call('session_finalize', { session_id: 'none' })
    expect([failed.isError, failed.structured]).toEqual([
      false,
      { success: false, error: 'No accumulated data for none' },
    ])
    for (const args of [
      {},
      { session_id: 'S', complexity: 26 },
      { session_id: 'S', complexity: 2.5 },
      { session_id: 7, complexity: {} },
      { session_id: 'S', unknown: 1 },
    ]) {
      const refused = await child.call('session_accumulate', args)
      expect([JSON.stringify(args), refused.isError, refused.structured.error?.code]).toEqual([
        JSON.stringify(args),
        true,
        'invalid_argument',
      ])
    }
    const text = await child.must('session_accumulate', {
      session_id: 'S',
      complexity: '7',
      plan_mode: 'true',
    })
    expect(text.structured).toMatchObject({ success: true, request_number: 1 })
  }))

test('the prompts resume-session and summarize-session hold what the ledger knows', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    const { prompts } = await child.client.listPrompts()
    expect(prompts.map((prompt) => prompt.name)).toEqual(['resume-session', 'summarize-session'])
    await expect(child.client.getPrompt({ name: 'resume-session', arguments: {} })).rejects.toThrow(
      /no session yet/,
    )
    const { structured: made } = await child.must('session_create', { prompt: 'Fix the kafka consumer' })
    const session_id = String(made.session_id)
    await child.must('session_accumulate', { session_id, prompt: 'Fix the kafka consumer' })
    await child.must('create_notebook', { kernel: 'javascript' })
    const textOf = async (name: string, args: Record<string, string>) => {
      const { messages } = await child.client.getPrompt({ name, arguments: args })
      return messages.map(({ content }) => (content.type === 'text' ? content.text : '')).join('\n')
    }
    expect(await textOf('resume-session', {})).toContain('connect_notebook {"notebook_id"')
    const summarize = await textOf('summarize-session', { session_id })
    for (const part of ['Fix the kafka consumer', 'session_save', 'session_finalize', session_id])
      expect(summarize).toContain(part)
    await expect(textOf('resume-session', { session_id: 'nobody' })).rejects.toThrow(/not found|no session/i)
  }))
