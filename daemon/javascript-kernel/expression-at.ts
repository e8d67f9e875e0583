/** The dotted expression around or before a place in code, and the value it stands for. Looks, never calls. */
import { types } from 'node:util'

/** Objects from the global one down; `last` is the name being typed, perhaps empty. */
export interface DottedName {
  readonly path: readonly string[]
  readonly last: string
  /** Offset of `last` in the code. */
  readonly start: number
}

const identifier = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*`

/** The name that ends at `offset`; undefined inside numbers and after calls, whose value is not known. */
export function nameBefore(code: string, offset: number): DottedName | undefined {
  const text = code.slice(0, offset)
  const tail = new RegExp(`(${identifier})?$`, 'u').exec(text)?.[0] ?? ''
  let rest = text.slice(0, text.length - tail.length)
  const path: string[] = []
  if (/\d$/.test(rest) && tail !== '') return undefined
  for (;;) {
    const dot = /\s*\??\.\s*$/.exec(rest)
    if (!dot) break
    rest = rest.slice(0, rest.length - dot[0].length)
    const step = stepBefore(rest)
    if (!step) return undefined
    path.unshift(...step.names)
    rest = step.rest
    if (step.complete) return { path, last: tail, start: text.length - tail.length }
  }
  if (path.length > 0) return undefined
  return { path, last: tail, start: text.length - tail.length }
}

/** The name that covers `offset`, to its end. */
export function nameAround(code: string, offset: number): DottedName | undefined {
  const after = /^[\p{ID_Continue}$]*/u.exec(code.slice(offset))?.[0] ?? ''
  const name = nameBefore(code, offset + after.length)
  if (name && name.last !== '') return name
  // Behind an opening parenthesis, as editors ask for the function being called.
  const call = /\(\s*$/.exec(code.slice(0, offset))
  return call ? nameBefore(code, offset - call[0].length) : undefined
}

interface Step {
  readonly names: string[]
  readonly rest: string
  /** The expression begins here. */
  readonly complete: boolean
}

const literals: [RegExp, string][] = [
  [/"(?:[^"\\\n]|\\.)*"$|'(?:[^'\\\n]|\\.)*'$|`[^`]*`$/, 'String'],
  [/\[[^\][]*\]$/, 'Array'],
]

function stepBefore(text: string): Step | undefined {
  const name = new RegExp(`${identifier}$`, 'u').exec(text)?.[0]
  if (name !== undefined) {
    const rest = text.slice(0, text.length - name.length)
    return { names: [name], rest, complete: !/\.\s*$/.test(rest) }
  }
  const index = /\[(\d+|"[^"]*"|'[^']*')\]$/.exec(text)
  if (index) {
    const object = stepBefore(text.slice(0, index.index))
    const key = (index[1] ?? '').replace(/^["']|["']$/g, '')
    if (object) return { names: [...object.names, key], rest: object.rest, complete: object.complete }
  }
  for (const [pattern, type] of literals) {
    const found = pattern.exec(text)
    if (found) return { names: [type, 'prototype'], rest: text.slice(0, found.index), complete: true }
  }
  return undefined
}

export type Found = { readonly found: true; readonly value: unknown } | { readonly found: false }

/** Follows a path of properties without running code: no getters but Node's lazy globals, no proxies. */
export function valueAt(path: readonly string[]): Found {
  let value: unknown = globalThis
  for (const [depth, name] of path.entries()) {
    if (value === null || value === undefined) return { found: false }
    if (depth === 0 && (name === 'this' || name === 'globalThis')) continue
    const descriptor = descriptorOf(value, name)
    if (!descriptor) return { found: false }
    if (descriptor.get) {
      if (value !== globalThis) return { found: false }
      value = Reflect.get(globalThis, name)
    } else value = descriptor.value
  }
  return { found: true, value }
}

function descriptorOf(value: unknown, name: string): PropertyDescriptor | undefined {
  for (let object: unknown = Object(value); object !== null; object = Object.getPrototypeOf(object)) {
    if (types.isProxy(object)) return undefined
    const descriptor = Object.getOwnPropertyDescriptor(object, name)
    if (descriptor) return descriptor
  }
  return undefined
}
