/**
 * Outputs as content blocks for a model: text in the order of the kernel, images where they belong, links for what is too large.
 * Bounds: 8 KiB of text an output, 4 images a result (how large each may be: pictures.ts).
 */
import { isBinaryMime } from '../../../protocol/mime.ts'
import type { Execution, ExecutionSummary, MimeBundle, Output } from '../../../protocol/notebook.ts'
import type { Client } from '../../sdk/client.ts'
import { outputUri } from '../resources/uri.ts'
import { type ContentBlock, text } from './content.ts'
import { count, cutToBytes, OUTPUT_TEXT, plain, shorten, sizeOf } from './model-text.ts'
import { drawSvg, SOURCE_BYTES, showPicture } from './pictures.ts'
import { isBlobRef } from './structured.ts'

/** Images of one result. */
const IMAGES = 4

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
const rasters = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
/** Forms that serve a model less than the picture they stand beside. */
const besidePicture = new Set(['text/plain', 'image/svg+xml', 'text/html', 'application/json'])

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
    const raster = rasters.find((mime) => mime in data)
    const picture = raster ?? ('image/svg+xml' in data ? 'image/svg+xml' : undefined)
    const shown =
      picture === undefined ? false : await this.#picture(picture, data[picture], index, execution)
    // The text beside a picture is its class name, and its markup says less than it shows: worth having only without it.
    const mime = texts.find((name) => name in data && !(shown && besidePicture.has(name)))
    if (mime !== undefined) await this.#text(mime, data[mime], execution)
    const rest = Object.entries(data).filter(([name]) => name !== mime && name !== picture)
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
  async #picture(
    mime: string,
    value: unknown,
    index: number,
    execution: Pick<ExecutionSummary, 'execution_id'> | null,
  ): Promise<boolean> {
    const size = isBinaryMime(mime) ? binarySize(value) : textSize(value)
    const uri = execution ? outputUri(execution.execution_id, index) : null
    const instead = (why: string): false => {
      const description = `${mime}, ${sizeOf(size)}: ${why}`
      // Without an execution there is no resource; of an SVG there is the text.
      if (uri === null || !isBinaryMime(mime)) this.line(`(${description})`)
      else
        this.blocks.push({ type: 'resource_link', uri, name: `output ${index}`, mimeType: mime, description })
      return false
    }
    if (this.#images >= IMAGES) return instead(`the ${IMAGES} images of this result are shown`)
    if (size > SOURCE_BYTES) return instead('too large to show here')
    const bytes = await this.#bytes(mime, value)
    if (bytes === null) {
      this.line(`(${mime}, ${sizeOf(size)}, is not kept any more)`)
      return false
    }
    const picture = isBinaryMime(mime)
      ? await showPicture(bytes, mime)
      : await drawSvg(bytes.toString('utf8'))
    if (picture.kind === 'refused') return instead(picture.why)
    this.#images++
    this.blocks.push({ type: 'image', data: picture.bytes.toString('base64'), mimeType: picture.mime })
    if (picture.change !== null) {
      const whole = uri === null || !isBinaryMime(mime) ? '' : `; ${uri} has it whole`
      this.line(`(${picture.change}${whole})`)
    }
    return true
  }

  async #bytes(mime: string, value: unknown): Promise<Buffer | null> {
    if (!isBlobRef(value)) return Buffer.from(String(value), isBinaryMime(mime) ? 'base64' : 'utf8')
    return this.#client.fetchBlob(value.blob).then(
      (bytes) => Buffer.from(bytes),
      () => null,
    )
  }
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

function textSize(value: unknown): number {
  return isBlobRef(value) ? value.size : Buffer.byteLength(String(value))
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
  const image = rasters.find((name) => name in data)
  if (image) return `[${image}]`
  return mime ? String(data[mime]) : `[${Object.keys(data).join(', ')}]`
}
