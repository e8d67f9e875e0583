/** What a model gets of large outputs and pictures. */
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { startChild, withDaemon } from './harness.ts'

const show = (mime: string, file: string) =>
  `display({ '${mime}': readFileSync('${file}').toString('base64'), 'text/plain': '<Figure>' }, { raw: true })`

/** A noisy picture, which no format makes small. */
function noise(width: number, height: number): Promise<Buffer> {
  return sharp(randomBytes(width * height * 3), { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

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
      execution: {
        execution_id: string
        outputs: { text: { blob: string; size: number; head: string; tail: string } }[]
      }
      cell: { cell_id: string }
    }
    const whole = Array.from({ length: 200_000 }, (_, i) => `line ${i}\n`).join('')
    const long = execution.outputs[0]?.text
    expect(long?.size).toBe(whole.length)
    expect(whole.startsWith(long?.head ?? '-')).toBe(true)
    expect(whole.endsWith(long?.tail ?? '-')).toBe(true)
    // What `blob` names is a resource with all of it.
    const { contents } = await child.client.readResource({ uri: long?.blob ?? '' })
    expect((contents[0] as { text: string }).text === whole).toBe(true)
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

test('pictures are picture blocks: 4 a result, scaled below 1 MiB each, others are links; never base64 in text', () =>
  withDaemon(async (home) => {
    const small = await noise(60, 40)
    const large = await noise(1_500, 1_000)
    writeFileSync(join(home.work, 'small.png'), small)
    writeFileSync(join(home.work, 'large.png'), large)
    writeFileSync(join(home.work, 'broken.png'), small.subarray(0, 900))
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript', working_dir: home.work })
    await child.must('create_cell', { source: "const { readFileSync } = require('node:fs')", and_run: true })
    const files = ['small', 'broken', 'large', 'small', 'small', 'small', 'large']
    const made = await child.must('create_cell', {
      source: files.map((file) => show('image/png', `${file}.png`)).join('\n'),
      and_run: true,
    })
    const images = made.content.filter((block) => block.type === 'image')
    expect(images.map(({ mimeType }) => mimeType)).toEqual([
      'image/png',
      expect.stringMatching(/^image\/(png|webp)$/),
      'image/png',
      'image/png',
    ])
    const sizes = images.map(({ data = '' }) => Buffer.from(data, 'base64').length)
    expect(sizes.filter((size) => size === small.length)).toHaveLength(3)
    expect(sizes[1]).toBeLessThanOrEqual(1024 * 1024)
    const { execution } = made.structured as {
      execution: { execution_id: string; outputs: { data: Record<string, { blob: string; size: number }> }[] }
    }
    const uri = (index: number) => `roomd://executions/${execution.execution_id}/outputs/${index}`
    expect(made.text).toMatch(/\(1500x1000, 4\.\d MiB, shown as \d+x\d+ (png|webp);/)
    expect(made.text).toContain(`${uri(2)} has it whole`)
    const links = made.content.filter((block) => block.type === 'resource_link') as Array<{
      uri?: string
      description?: string
    }>
    expect(links.map((link) => link.uri)).toEqual([1, 5, 6].map(uri))
    expect(links[0]?.description).toContain('it is no image/png, or not all of it')
    expect(links[1]?.description).toContain('the 4 images of this result are shown')
    expect(execution.outputs[2]?.data['image/png']?.size).toBe(large.length)
    expect(`${made.text}${JSON.stringify(made.structured)}`).not.toMatch(/[A-Za-z0-9+/=]{100,}/)
    const { contents } = await child.client.readResource({ uri: uri(6) })
    const [content] = contents as { mimeType?: string; blob?: string }[]
    expect(content?.mimeType).toBe('image/png')
    expect(Buffer.from(content?.blob ?? '', 'base64').equals(large)).toBe(true)
  }))

test('an SVG is drawn; one that cannot be is text, with why', () =>
  withDaemon(async (home) => {
    const child = await startChild(home)
    await child.must('create_notebook', { kernel: 'javascript' })
    const svg = (size: string, inside: string) =>
      `display({ 'image/svg+xml': '<svg xmlns="http://www.w3.org/2000/svg" ${size}>${inside}</svg>' }, { raw: true })`
    const long = '<circle cx="9" cy="9" r="9"/>'.repeat(2_000)
    const made = await child.must('create_cell', {
      source: [
        svg('width="90" height="60"', '<rect width="9" height="9"/>'),
        svg('width="90" height="60"', long),
        svg('width="300000" height="300000"', '<desc>vast</desc>'),
      ].join('\n'),
      and_run: true,
    })
    const images = made.content.filter((block) => block.type === 'image')
    expect(images.map(({ mimeType }) => mimeType)).toEqual(['image/png', 'image/png'])
    expect(await sharp(Buffer.from(images[1]?.data ?? '', 'base64')).metadata()).toMatchObject({
      width: 180,
      height: 120,
    })
    expect(made.text).not.toContain('<circle')
    expect(made.text).toMatch(/\(image\/svg\+xml, \d+ B: it could not be read: .*pixel limit.*\)\n<svg/)
    expect(made.text).toContain('<desc>vast</desc>')
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
