/** Values as mime bundles: what `display()` and the result of a cell show. */
import { inspect, types } from 'node:util'

export interface MimeBundle {
  readonly data: Record<string, unknown>
  readonly metadata: Record<string, unknown>
}

/** The method of rich values in Jupyter kernels for JavaScript: returns an object of mime types. */
export const displaySymbol = Symbol.for('Jupyter.display')

const textMethods = {
  toHTML: 'text/html',
  toSVG: 'image/svg+xml',
  toMarkdown: 'text/markdown',
  toLaTeX: 'text/latex',
} as const

/** text/plain always, and what the value offers beyond. Runs code of the value; throws what that throws. */
export function toMimeBundle(value: unknown): MimeBundle {
  const image = imageType(value)
  if (image)
    return rawBundle({
      [image.type]: image.bytes,
      'text/plain': `<${image.type}, ${image.bytes.length} bytes>`,
    })
  const rich = richData(value)
  return rich
    ? rawBundle({ 'text/plain': plain(value), ...rich })
    : { data: { 'text/plain': plain(value) }, metadata: {} }
}

/** A bundle given as an object of mime types: bytes become base64, and what is not JSON becomes text. */
export function rawBundle(bundle: Record<string, unknown>): MimeBundle {
  const data: Record<string, unknown> = {}
  for (const [type, value] of Object.entries(bundle)) {
    if (value === undefined) continue
    if (value instanceof Uint8Array)
      data[type] = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
    else if (isJsonType(type)) data[type] = value
    else
      data[type] = typeof value === 'string' ? value : Array.isArray(value) ? value.join('') : String(value)
  }
  return { data, metadata: {} }
}

/** True for a plain object all of whose keys are mime types. */
export function looksLikeBundle(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  const keys = Object.keys(value)
  return (
    keys.length > 0 &&
    keys.every((key) => /^(application|audio|font|image|model|text|video)\/[\w.+-]+$/.test(key))
  )
}

function isJsonType(type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

/** As Node shows it, without colours. */
function plain(value: unknown): string {
  return inspect(value, { ...inspect.defaultOptions, colors: false })
}

function richData(value: unknown): Record<string, unknown> | undefined {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return undefined
  const display: unknown = Reflect.get(value, displaySymbol)
  if (typeof display === 'function') {
    const data: unknown = Reflect.apply(display, value, [])
    if (typeof data === 'object' && data !== null) return data as Record<string, unknown>
  }
  const data: Record<string, unknown> = {}
  for (const [method, type] of Object.entries(textMethods)) {
    const text = call(value, method)
    if (typeof text === 'string') data[type] = text
  }
  const spec = call(value, 'toSpec')
  if (typeof spec === 'object' && spec !== null) data[vegaType(spec)] = spec
  const html: unknown = Reflect.get(value, 'outerHTML')
  if (typeof html === 'string' && Object.keys(data).length === 0) {
    data[/^<svg[\s>]/i.test(html) ? 'image/svg+xml' : 'text/html'] = html
  }
  return Object.keys(data).length > 0 ? data : undefined
}

function call(value: object, method: string): unknown {
  const found: unknown = Reflect.get(value, method)
  return typeof found === 'function' && found.length === 0 ? Reflect.apply(found, value, []) : undefined
}

function vegaType(spec: object): string {
  const schema: unknown = Reflect.get(spec, '$schema')
  const match = typeof schema === 'string' ? /\/(vega|vega-lite)\/v(\d+)/.exec(schema) : null
  if (!match) return 'application/json'
  return `application/vnd.${match[1] === 'vega' ? 'vega' : 'vegalite'}.v${match[2]}+json`
}

/** Bytes of an image that frontends show, by their first bytes. */
function imageType(value: unknown): { type: string; bytes: Uint8Array } | undefined {
  if (!(value instanceof Uint8Array) || value.length < 12) return undefined
  const head = Buffer.from(value.buffer, value.byteOffset, 12).toString('latin1')
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return { type: 'image/png', bytes: value }
  if (head.startsWith('\xff\xd8\xff')) return { type: 'image/jpeg', bytes: value }
  if (head.startsWith('GIF8')) return { type: 'image/gif', bytes: value }
  if (head.startsWith('RIFF') && head.endsWith('WEBP')) return { type: 'image/webp', bytes: value }
  return undefined
}
