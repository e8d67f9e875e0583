/**
 * Arguments as models send them: values that arrive as text are turned into what the schema wants (booleans, numbers, lists,
 * objects, null), names that do not exist are refused with those that do.
 */
import type { z } from 'zod'
import { RoomdError } from '../../../protocol/errors.ts'
import type { Tool } from './tool.ts'

/** Parsed arguments, defaults filled in. Throws `invalid_argument` that says what is wrong and what is expected. */
export function readArguments(tool: Tool, given: unknown): Record<string, unknown> {
  const args = plainObject(given, tool)
  refuseUnknown(tool, args)
  const repaired: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(args)) {
    // Models send null for what they leave out.
    const schema = tool.input.shape[name] as z.ZodType
    const kinds = kindsOf(schema)
    const asNumber =
      tool.booleansAsNumbers && typeof value === 'boolean' && !kinds.has('boolean') && kinds.has('number')
    const read = asNumber ? Number(value) : repair(value, kinds)
    if (read === null && !kinds.has('null')) continue
    repaired[name] = read
  }
  const parsed = tool.input.safeParse(repaired)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.slice(0, 5).map((issue) => {
    const at = issue.path.map(String).join('.')
    const missing = at !== '' && !(at in repaired) && issue.code === 'invalid_type'
    return missing ? `"${at}" is missing` : `${at === '' ? '' : `"${at}": `}${issue.message}`
  })
  throw new RoomdError('invalid_argument', `${tool.name}: ${problems.join('; ')}. ${expected(tool)}`, {
    cause: { issues: problems },
  })
}

function plainObject(given: unknown, tool: Tool): Record<string, unknown> {
  if (given === undefined || given === null) return {}
  const value = typeof given === 'string' ? parseJson(given) : given
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw new RoomdError('invalid_argument', `${tool.name}: the arguments are no object. ${expected(tool)}`)
}

function refuseUnknown(tool: Tool, args: Record<string, unknown>): void {
  const known = Object.keys(tool.input.shape)
  const unknown = Object.keys(args).filter((name) => !known.includes(name))
  if (unknown.length === 0) return
  const hints = unknown.flatMap((name) => {
    const hint = tool.hints?.[name] ?? generalHints[name]
    return hint === undefined ? [] : [hint]
  })
  throw new RoomdError(
    'invalid_argument',
    `${tool.name} has no argument ${unknown.map((name) => `"${name}"`).join(', ')}. ${[...hints, expected(tool)].join(' ')}`,
    { cause: { unknown, allowed: known } },
  )
}

const generalHints: Record<string, string> = {
  index: 'Cells are named by cell_id, which never changes; get_all_cells lists them.',
  cell_index: 'Cells are named by cell_id, which never changes; get_all_cells lists them.',
  position: 'A place is told by after_cell_id (null: at the start, absent: at the end).',
  code: 'The text of a cell is "source".',
  content: 'The text of a cell is "source".',
  timeout: 'Seconds to wait are "timeout_secs".',
  notebook_path: 'A notebook is named by "notebook" (id or path).',
  id: 'Say which id: cell_id, execution_id or notebook_id.',
}

function expected(tool: Tool): string {
  const names = Object.entries(tool.input.shape).map(([name, schema]) =>
    (schema as z.ZodType).safeParse(undefined).success ? `${name}?` : name,
  )
  return names.length === 0 ? `${tool.name} takes no arguments.` : `Allowed: ${names.join(', ')}.`
}

type Kind = 'string' | 'boolean' | 'number' | 'array' | 'object' | 'null'

/** Kinds of values that a schema takes, looking through optional, default, nullable and unions. */
export function kindsOf(schema: z.ZodType): ReadonlySet<Kind> {
  const kinds = new Set<Kind>()
  const visit = (type: z.ZodType): void => {
    const { def } = type as unknown as { def: Definition }
    switch (def.type) {
      case 'optional':
      case 'default':
      case 'prefault':
      case 'readonly':
        if (def.innerType) visit(def.innerType)
        return
      case 'nullable':
        kinds.add('null')
        if (def.innerType) visit(def.innerType)
        return
      case 'union':
        for (const option of def.options ?? []) visit(option)
        return
      case 'boolean':
      case 'number':
      case 'array':
      case 'null':
        kinds.add(def.type)
        return
      case 'record':
      case 'object':
        kinds.add('object')
        return
      default:
        kinds.add('string')
    }
  }
  visit(schema)
  return kinds
}

interface Definition {
  readonly type: string
  readonly innerType?: z.ZodType
  readonly options?: readonly z.ZodType[]
}

/** A value that arrived as text where something else is wanted. What cannot be read stays as it is, for the schema to refuse. */
export function repair(value: unknown, kinds: ReadonlySet<Kind>): unknown {
  if (kinds.has('array') && value !== null && !Array.isArray(value) && typeof value !== 'string')
    return [value]
  if (typeof value !== 'string') return value
  const text = value.trim()
  if (kinds.has('null') && /^(null|none)$/i.test(text)) return null
  if (kinds.has('string')) return value
  if (kinds.has('boolean')) {
    if (/^(true|yes|on|1)$/i.test(text)) return true
    if (/^(false|no|off|0)$/i.test(text)) return false
  }
  if (kinds.has('number') && text !== '' && Number.isFinite(Number(text))) return Number(text)
  if (kinds.has('object') && text.startsWith('{')) return parseJson(text) ?? value
  if (kinds.has('array')) return listOf(text)
  return value
}

/** JSON, a Python list's repr, or one bare value. */
function listOf(text: string): unknown[] {
  if (text === '') return []
  const json = parseJson(text)
  if (Array.isArray(json)) return json
  const python = /^[[(](.*)[\])]$/s.exec(text)
  if (!python) return [json ?? text]
  const inner = (python[1] ?? '').trim()
  if (inner === '') return []
  const items = inner.match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,\s][^,]*/g) ?? []
  return items.map((item) => {
    const quoted = /^(['"])(.*)\1$/s.exec(item.trim())
    return quoted ? (quoted[2] ?? '').replace(/\\(['"\\])/g, '$1') : item.trim()
  })
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
