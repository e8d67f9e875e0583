/** What a model gets of large outputs and pictures. */
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { startChild, withDaemon } from './harness.ts'

const png = (bytes: number) =>
  `display({ 'image/png': Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(${bytes - 8}, 7)]).toString('base64'), 'text/plain': '<Figure>' }, { raw: true })`

test('a large output is shown by both ends; full_output gives all of it, in parts', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const made = await child.must('create_cell', {
      source:
        "void process.stdout.write(Array.from({ length: 200000 }, (_, i) => 'line ' + i + '\\n').join(''))",
      and_run: true,
    })
    const { execution, cell } = made.structured as {
      execution: { execution_id: string; outputs: { text: { size: number; head: string; tail: string } }[] }
      cell: { cell_id: string }
    }
    const whole = Array.from({ length: 200_000 }, (_, i) => `line ${i}\n`).join('')
    const long = execution.outputs[0]?.text
    expect(long?.size).toBe(whole.length)
    expect(whole.startsWith(long?.head ?? '-')).toBe(true)
    expect(whole.endsWith(long?.tail ?? '-')).toBe(true)
    expect(Buffer.byteLength(made.text)).toBeLessThan(10 * 1024)
    expect(made.text).toMatch(/characters left out: get_results \{"execution_id": "/)
    expect(made.text.trimEnd().endsWith('line 199999')).toBe(true)

    const parts: string[] = []
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const part: Awaited<ReturnType<typeof child.must>> = await child.must('get_results', {
        execution_id: execution.execution_id,
        full_output: true,
        offset,
      })
      const outputs = part.structured.outputs as { text: string }[]
      parts.push(...outputs.map((output) => output.text))
      expect(Buffer.byteLength(parts.at(-1) ?? '')).toBeLessThanOrEqual(1024 * 1024)
      offset = part.structured.next_offset as number | undefined
    }
    expect(parts.length).toBe(3)
    expect(parts.join('') === whole).toBe(true)

    const ofCell = await child.must('get_cell', { cell_id: cell.cell_id, full_output: true })
    const first = ofCell.structured as {
      cell: { source: string; outputs: { text: string }[] }
      next_offset: number
    }
    expect(first.cell.source).toContain('process.stdout.write')
    const second = await child.must('get_cell', {
      cell_id: cell.cell_id,
      full_output: true,
      offset: first.next_offset,
    })
    const rest = (second.structured.cell as { outputs: { text: string }[] }).outputs[0]?.text ?? ''
    expect(whole.startsWith((first.cell.outputs[0]?.text ?? '') + rest)).toBe(true)
  }))

test('colours and progress bars are plain text; structured output keeps them', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const made = await child.must('create_cell', {
      source:
        "for (let i = 0; i <= 100; i++) process.stdout.write('\\r' + i + '%')\nconsole.log('\\n\\x1b[31mred\\x1b[0m')",
      and_run: true,
    })
    expect(made.text).toMatch(/\n100%\nred$/)
    expect(JSON.stringify(made.structured.execution)).toContain('\\u001b[31mred')
  }))

test('pictures are picture blocks: 4 a result, 1 MiB each, others are links; never base64 in text', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const made = await child.must('create_cell', {
      source: [png(500), png(2_000_000), ...Array.from({ length: 5 }, () => png(20_000))].join('\n'),
      and_run: true,
    })
    const images = made.content.filter((block) => block.type === 'image')
    expect(images).toHaveLength(4)
    expect(images[0]?.mimeType).toBe('image/png')
    expect(Buffer.from(images[0]?.data ?? '', 'base64').length).toBe(500)
    expect(Buffer.from(images[1]?.data ?? '', 'base64').length).toBe(20_000)
    const links = made.content.filter((block) => block.type === 'resource_link')
    expect(links).toHaveLength(3)
    const { execution } = made.structured as {
      execution: { execution_id: string; outputs: { data: Record<string, { blob: string; size: number }> }[] }
    }
    expect(links[0]?.uri).toBe(`roomd://executions/${execution.execution_id}/outputs/1`)
    expect(execution.outputs.map((output) => output.data['image/png']?.size)).toEqual([
      500, 2_000_000, 20_000, 20_000, 20_000, 20_000, 20_000,
    ])
    expect(`${made.text}${JSON.stringify(made.structured)}`).not.toMatch(/[A-Za-z0-9+/=]{100,}/)
    const { contents } = await child.client.readResource({ uri: links[0]?.uri ?? '' })
    const [content] = contents as { mimeType?: string; blob?: string }[]
    expect(content?.mimeType).toBe('image/png')
    expect(Buffer.from(content?.blob ?? '', 'base64').length).toBe(2_000_000)
  }))

test('a Python kernel: tracebacks without colours, tables as text, a password is not asked of the user by form', (context) => {
  needs(context, 'Python kernel')
  return withDaemon(async (home) => {
    const child = await startChild(home, {
      capabilities: { elicitation: {} },
      prepare: (client) =>
        client.setRequestHandler(ElicitRequestSchema, () => {
          throw new Error('asked')
        }),
    })
    await child.must('create_notebook', { path: 'p.ipynb', kernel: 'python3' })
    const broken = await child.must('create_cell', { source: 'def f():\n    return 1/0\nf()', and_run: true })
    expect(broken.structured.execution).toMatchObject({
      status: 'error',
      outputs: [{ ename: 'ZeroDivisionError' }],
    })
    expect(broken.text).toContain('ZeroDivisionError: division by zero')
    expect(broken.text).not.toContain('\u001b')
    const rich = await child.must('create_cell', {
      source:
        'from IPython.display import display, HTML\nclass T:\n    def _repr_html_(self): return "<b>bold</b>"\n    def __repr__(self): return "plain"\nT()',
      and_run: true,
    })
    expect(rich.text).toContain('plain\n(also as text/html 11 B)')
    const secret = await child.must('create_cell', {
      source: 'import getpass\ngetpass.getpass("Token: ")',
      and_run: true,
    })
    expect(secret.structured.execution).toMatchObject({ status: 'waiting_for_input', password: true })
    expect(secret.text).toContain('a password: ask the user')
    await child.must('interrupt_kernel')
  })
})
