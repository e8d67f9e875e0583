/**
 * The rules of notebook format 4 (minor versions 0 to 5), for parsed JSON: what its schemas ask for, in our words and with the
 * place. A file that breaks them is opened all the same where it can be read, kept as it is, and reported.
 *
 * Ids that are missing or occur twice are not told here: reading does, since it gives such cells others (read.ts).
 */

import { placeOf } from './json-check.ts'
import { isRecord } from './outputs.ts'
import type { FileWarning } from './parse.ts'

/** What is told at most; a file with more is broken in one way many times. */
const MOST = 100
/** The newest minor version with known rules. Later ones may add members and kinds of cells and outputs. */
const NEWEST_MINOR = 5

type Path = readonly (string | number)[]
type Check = (value: unknown, at: Path, on: Validation) => void

/** Violations in the order of the file, the first 100. */
export function validateNotebook(value: Readonly<Record<string, unknown>>, minor: number): FileWarning[] {
  const on = new Validation(minor)
  notebook(value, [], on)
  return on.found
}

class Validation {
  readonly minor: number
  readonly found: FileWarning[] = []

  constructor(minor: number) {
    this.minor = minor
  }

  /** The file is of a version after the rules. */
  get later(): boolean {
    return this.minor > NEWEST_MINOR
  }

  say(at: Path, reason: string): void {
    if (this.found.length < MOST) this.found.push({ at: placeOf(at), reason })
  }
}

// --- kinds of checks -------------------------------------------------------------------------------------------------

const text: Check = (value, at, on) => {
  if (typeof value !== 'string') on.say(at, 'expected a text')
}
const truth: Check = (value, at, on) => {
  if (typeof value !== 'boolean') on.say(at, 'expected true or false')
}
const object: Check = (value, at, on) => {
  if (!isRecord(value)) on.say(at, 'expected an object')
}
const list =
  (item: Check): Check =>
  (value, at, on) => {
    if (!Array.isArray(value)) on.say(at, 'expected a list')
    else
      value.forEach((one: unknown, index) => {
        item(one, [...at, index], on)
      })
  }
const lines: Check = (value, at, on) => {
  if (typeof value === 'string') return
  if (Array.isArray(value)) list(text)(value, at, on)
  else on.say(at, 'expected a text or a list of texts')
}
const count: Check = (value, at, on) => {
  const whole = typeof value === 'number' && Number.isInteger(value) && value >= 0
  if (value !== null && !whole) on.say(at, 'expected a whole number of at least 0, or null')
}

interface Members {
  readonly required: Readonly<Record<string, Check>>
  readonly optional?: Readonly<Record<string, Check>>
  /** Other members may be there. */
  readonly open?: boolean
}

/** `what`: names the object in messages. */
const members =
  (what: string, rules: Members | ((on: Validation) => Members)): Check =>
  (value, at, on) => {
    if (!isRecord(value)) {
      on.say(at, `${what} must be an object`)
      return
    }
    const { required, optional = {}, open = false } = typeof rules === 'function' ? rules(on) : rules
    for (const [key, check] of Object.entries(required)) {
      if (Object.hasOwn(value, key)) check(value[key], [...at, key], on)
      else on.say(at, `${what} needs "${key}"`)
    }
    for (const [key, part] of Object.entries(value)) {
      if (Object.hasOwn(required, key)) continue
      const check = Object.hasOwn(optional, key) ? optional[key] : undefined
      if (check) check(part, [...at, key], on)
      else if (!open && !on.later)
        on.say([...at, key], `format 4.${on.minor} has no such member of ${what}; it is kept`)
    }
  }

// --- the format ------------------------------------------------------------------------------------------------------

const name: Check = (value, at, on) => {
  if (typeof value !== 'string' || value === '') on.say(at, 'expected a text that is not empty')
}
const tags: Check = (value, at, on) => {
  list((tag, place) => {
    if (typeof tag !== 'string' || tag === '' || tag.includes(','))
      on.say(place, 'expected a text without commas')
  })(value, at, on)
  if (Array.isArray(value) && new Set(value).size < value.length) on.say(at, 'a tag occurs twice')
}
const mimeBundle: Check = (value, at, on) => {
  if (!isRecord(value)) {
    on.say(at, 'expected an object of mime types')
    return
  }
  for (const [mime, content] of Object.entries(value))
    if (!/^application\/(.*\+)?json$/.test(mime)) lines(content, [...at, mime], on)
}
const attachments: Check = (value, at, on) => {
  if (!isRecord(value)) {
    on.say(at, 'expected an object of attachments')
    return
  }
  for (const [file, bundle] of Object.entries(value)) mimeBundle(bundle, [...at, file], on)
}
const cellId: Check = (value, at, on) => {
  if (typeof value === 'string' && value.length <= 64 && /^[a-zA-Z0-9-_]+$/.test(value)) return
  on.say(at, 'expected 1 to 64 letters, digits, "-" or "_"')
}

const notebookMetadata = members('metadata', (on) => ({
  required: {},
  open: true,
  optional: {
    kernelspec: members('kernelspec', { required: { name: text, display_name: text }, open: true }),
    language_info: members('language_info', {
      required: { name: text },
      open: true,
      optional: {
        codemirror_mode: (value, at) => {
          if (typeof value !== 'string' && !isRecord(value)) on.say(at, 'expected a text or an object')
        },
        file_extension: text,
        mimetype: text,
        pygments_lexer: text,
      },
    }),
    orig_nbformat: (value, at) => {
      if (!Number.isInteger(value) || Number(value) < 1) on.say(at, 'expected a whole number of at least 1')
    },
    ...(on.minor >= 2 ? { title: text, authors: list(() => {}) } : {}),
  },
}))

const metadataOf = (on: Validation, optional: Readonly<Record<string, Check>>): Check =>
  members('metadata', {
    required: {},
    open: true,
    optional: { name, tags, ...(on.minor >= 3 ? { jupyter: object } : {}), ...optional },
  })

const scrolled: Check = (value, at, on) => {
  if (typeof value !== 'boolean' && value !== 'auto') on.say(at, 'expected true, false or "auto"')
}
const times: Check = (value, at, on) => {
  if (!isRecord(value)) on.say(at, 'expected an object of times')
  else for (const [key, time] of Object.entries(value)) text(time, [...at, key], on)
}

const output: Check = (value, at, on) => {
  const type = isRecord(value) ? value.output_type : undefined
  const rules = typeof type === 'string' ? outputs[type] : undefined
  if (rules) rules(value, at, on)
  else if (!isRecord(value)) on.say(at, 'an output must be an object')
  else if (typeof type !== 'string') on.say([...at, 'output_type'], 'expected a text')
  else if (!on.later)
    on.say([...at, 'output_type'], `there is no output type ${JSON.stringify(type)}; it is kept`)
}

const outputs: Readonly<Record<string, Check>> = {
  execute_result: members('an execute_result', {
    required: { output_type: text, data: mimeBundle, metadata: object, execution_count: count },
  }),
  display_data: members('a display_data', {
    required: { output_type: text, data: mimeBundle, metadata: object },
  }),
  stream: members('a stream', { required: { output_type: text, name: text, text: lines } }),
  error: members('an error', {
    required: { output_type: text, ename: text, evalue: text, traceback: list(text) },
  }),
}

/** Members that every cell has. */
const common = (on: Validation): Pick<Members, 'optional'> => ({
  optional: on.minor >= 5 ? { id: cellId } : {},
})

const cells: Readonly<Record<string, Check>> = {
  raw: members('a raw cell', (on) => ({
    required: { cell_type: text, metadata: metadataOf(on, { format: text }), source: lines },
    optional: { ...common(on).optional, attachments },
  })),
  markdown: members('a markdown cell', (on) => ({
    required: { cell_type: text, metadata: metadataOf(on, {}), source: lines },
    optional: { ...common(on).optional, attachments },
  })),
  code: members('a code cell', (on) => ({
    required: {
      cell_type: text,
      metadata: metadataOf(on, {
        collapsed: truth,
        scrolled,
        ...(on.minor >= 4 ? { execution: times } : {}),
      }),
      source: lines,
      outputs: list(output),
      execution_count: count,
    },
    ...common(on),
  })),
}

const cell: Check = (value, at, on) => {
  const type = isRecord(value) ? value.cell_type : undefined
  const rules = typeof type === 'string' ? cells[type] : undefined
  if (rules) rules(value, at, on)
  else if (!isRecord(value)) on.say(at, 'a cell must be an object')
  else if (!on.later)
    on.say([...at, 'cell_type'], `there is no cell type ${JSON.stringify(type)}; it is kept`)
}

const notebook = members('a notebook', {
  required: { metadata: notebookMetadata, nbformat: () => {}, nbformat_minor: () => {}, cells: list(cell) },
})
