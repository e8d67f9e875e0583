/**
 * Outputs as content blocks for a model: text in the order of the kernel, images where they belong, links for what is too large.
 * Bounds: 8 KiB of text an output, 4 images a result of at most 1 MiB each.
 */
import { isBinaryMime } from '../../../protocol/mime.ts'
import type { Execution, ExecutionSummary, MimeBundle, Output } from '../../../protocol/notebook.ts'
import type { Client } from '../../sdk/client.ts'
import { type ContentBlock, text } from './content.ts'
import { count, cutToBytes, OUTPUT_TEXT, plain, shorten, sizeOf } from './model-text.ts'
import { isBlobRef } from './structured.ts'

export const IMAGE_BYTES = 1024 * 1024
export const IMAGES = 4

/** Text forms in the order in which they serve a model. */
const texts = [
  'text/llm+plain',
  'text/latex',
  'text/markdown',
  'text/plain',
  'application/json',
  'image/svg+xml',
  'text/html',
]
const images = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']

/** Shows the outputs of one or more executions; counts images over all of them. */
export class OutputBlocks {
  readonly blocks: ContentBlock[] = []
  readonly #client: Client
  #images = 0

  constructor(client: Client) {
    this.#client = client
  }

  line(value: string): void {
    const last = this.blocks.at(-1)
    if (last?.type === 'text') last.text += `\n${value}`
    else this.blocks.push(text(value))
  }

  /**
   * Adds what the outputs show. `execution` names them, for links and for how to get more; null for outputs that have no execution
   * to ask about.
   */
  async add(
    outputs: readonly Output[],
    execution: Pick<ExecutionSummary, 'execution_id'> | null,
  ): Promise<void> {
    for (const [index, output] of outputs.entries()) await this.#output(output, index, execution)
  }

  async #output(
    output: Output,
    index: number,
    execution: Pick<ExecutionSummary, 'execution_id'> | null,
  ): Promise<void> {
    switch (output.output_type) {
      case 'stream': {
        const shown = shorten(output.text, (omitted) => leftOut(omitted, execution)).text
        if (shown.trim() === '') return
        this.line(output.name === 'stdout' ? shown.trimEnd() : `[${output.name}]\n${shown.trimEnd()}`)
        return
      }
      case 'error': {
        const trace = output.traceback.join('\n') || `${output.ename}: ${output.evalue}`
        this.line(shorten(trace, (omitted) => leftOut(omitted, execution)).text)
        return
      }
      case 'display_data':
      case 'execute_result':
        await this.#bundle(output.data, index, execution)
    }
  }

  async #bundle(
    data: MimeBundle,
    index: number,
    execution: Pick<ExecutionSummary, 'execution_id'> | null,
  ): Promise<void> {
    const image = images.find((mime) => mime in data)
    const shown = image === undefined ? false : await this.#image(image, data[image], index, execution)
    const mime = texts.find((name) => name in data)
    // The text beside a picture is its class name; it is worth having only without the picture.
    if (mime !== undefined && !(shown && mime === 'text/plain')) await this.#text(mime, data[mime], execution)
    const rest = Object.entries(data).filter(([name]) => name !== mime && name !== image)
    const besides = rest.filter(([name]) => name !== 'text/plain').map(([name, value]) => sized(name, value))
    if (besides.length > 0) this.line(`(also as ${besides.join(', ')})`)
  }

  async #text(
    mime: string,
    value: unknown,
    execution: Pick<ExecutionSummary, 'execution_id'> | null,
  ): Promise<void> {
    const note = (omitted: number): string => leftOut(omitted, execution)
    if (isBlobRef(value)) {
      // The beginning is enough; the end of markup or of a table's repr says little.
      const bytes = await this.#client.fetchBlob(value.blob).catch(() => null)
      if (!bytes) {
        this.line(`(${mime}, ${sizeOf(value.size)}, is not kept any more)`)
        return
      }
      this.line(shorten(Buffer.from(bytes).toString('utf8'), note).text)
      return
    }
    this.line(shorten(typeof value === 'string' ? value : JSON.stringify(value), note).text)
  }

  /** Whether the picture itself is among the blocks. */
  async #image(
    mime: string,
    value: unknown,
    index: number,
    execution: Pick<ExecutionSummary, 'execution_id'> | null,
  ): Promise<boolean> {
    const size = binarySize(value)
    const uri = execution ? outputUri(execution.execution_id, index) : null
    if (size <= IMAGE_BYTES && this.#images < IMAGES) {
      const data = isBlobRef(value)
        ? await this.#client.fetchBlob(value.blob).then(
            (bytes) => Buffer.from(bytes).toString('base64'),
            () => null,
          )
        : String(value).replace(/\s+/g, '')
      if (data !== null) {
        this.#images++
        this.blocks.push({ type: 'image', data, mimeType: mime })
        return true
      }
      this.line(`(${mime}, ${sizeOf(size)}, is not kept any more)`)
      return false
    }
    const why =
      size > IMAGE_BYTES ? 'too large to show here' : `the ${IMAGES} images of this result are shown`
    if (uri === null) {
      this.line(`(${mime}, ${sizeOf(size)}: ${why})`)
      return false
    }
    this.blocks.push({
      type: 'resource_link',
      uri,
      name: `output ${index}`,
      mimeType: mime,
      description: `${mime}, ${sizeOf(size)}: ${why}`,
    })
    return false
  }
}

export function outputUri(executionId: string, index: number): string {
  return `roomd://executions/${executionId}/outputs/${index}`
}

function leftOut(omitted: number, execution: Pick<ExecutionSummary, 'execution_id'> | null): string {
  const how = execution
    ? `: get_results {"execution_id": "${execution.execution_id}", "full_output": true}`
    : ': get_cell with full_output shows all'
  return `${count(omitted)} characters left out${how}`
}

function binarySize(value: unknown): number {
  if (isBlobRef(value)) return value.size
  return Math.floor((String(value).length * 3) / 4)
}

function sized(mime: string, value: unknown): string {
  if (isBlobRef(value)) return `${mime} ${sizeOf(value.size)}`
  const size = isBinaryMime(mime)
    ? binarySize(value)
    : Buffer.byteLength(typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
  return `${mime} ${sizeOf(size)}`
}

/** All text of an execution in one short piece, for lists. */
export function gist(execution: Pick<Execution, 'outputs'>, width: number): string {
  const last = execution.outputs.at(-1)
  if (!last) return ''
  const value =
    last.output_type === 'stream'
      ? typeof last.text === 'string'
        ? last.text
        : last.text.tail
      : last.output_type === 'error'
        ? `${last.ename}: ${last.evalue}`
        : bundleGist(last.data)
  const line = plain(cutToBytes(value, OUTPUT_TEXT)).trimEnd().split('\n').at(-1) ?? ''
  return line.length <= width ? line : `${[...line].slice(0, width - 1).join('')}…`
}

function bundleGist(data: MimeBundle): string {
  const mime = texts.find((name) => typeof data[name] === 'string')
  const image = images.find((name) => name in data)
  if (image) return `[${image}]`
  return mime ? String(data[mime]) : `[${Object.keys(data).join(', ')}]`
}
