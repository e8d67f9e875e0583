/** `inspect_request`: what the name under the cursor stands for. */
import { inspect } from 'node:util'
import { nameAround, valueAt } from './expression-at.ts'
import { toUnits } from './text-offset.ts'
import type { Json } from './wire.ts'

const notFound: Json = { status: 'ok', found: false, data: {}, metadata: {} }

/** `detail` 1 adds the source of functions. */
export function inspectCode(code: string, cursor: number, detail: number): Json {
  const name = nameAround(code, toUnits(code, cursor))
  if (!name || name.last === '') return notFound
  const path = [...name.path, name.last]
  const target = valueAt(path)
  if (!target.found) return notFound
  const text = describe(path.join('.'), target.value, detail)
  return { status: 'ok', found: true, data: { 'text/plain': text }, metadata: {} }
}

function describe(name: string, value: unknown, detail: number): string {
  if (typeof value === 'function') {
    const source = Function.prototype.toString.call(value)
    const isClass = /^class\b/.test(source)
    const native = /\{\s*\[native code\]\s*\}$/.test(source)
    const signature = native
      ? `${name}(${value.length === 0 ? '' : `${value.length} parameters`})`
      : head(source)
    const lines = [signature, `Type: ${isClass ? 'class' : 'function'}`]
    const properties = Object.keys(value)
    if (properties.length > 0) lines.push(`Properties: ${properties.join(', ')}`)
    if (detail > 0 && !native) lines.push('', source)
    return lines.join('\n')
  }
  const type = value === null ? 'null' : typeof value
  const maker: unknown =
    typeof value === 'object' && value !== null ? Reflect.get(value, 'constructor') : undefined
  const kind = typeof maker === 'function' && maker.name !== '' ? maker.name : type
  return [`${name}: ${kind}`, inspect(value, { maxStringLength: 2000, depth: detail > 0 ? 4 : 1 })].join('\n')
}

/** The declaration without its body. */
function head(source: string): string {
  const end = source.search(/\{|=>/)
  const text = end > 0 ? source.slice(0, end).trim() : source
  const line = text.replace(/\s+/g, ' ')
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}
