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

/** Where a value is; null: it is the notebook. Made at every step, and taken together only for what is told. */
type Path = { readonly above: Path; readonly step: string | number } | null
type Check = (value: unknown, at: Path, on: Validation) => void

function below(above: Path, step: string | number): Path {
  return { above, step }
}

/** Violations in the order of the file, the first 100. */
export function validateNotebook(value: Readonly<Record<string, unknown>>, minor: number): FileWarning[] {
  const on = new Validation(minor)
  notebook(value, null, on)
  return on.found
}

/** The same for a notebook whose cells come some at a time. */
export class ValidationInPieces {
  readonly #minor: number
  readonly #cells: Validation

  constructor(minor: number) {
    this.#minor = minor
    this.#cells = new Validation(minor)
  }

  /** `first`: place of the first of them in the notebook. */
  cells(some: readonly unknown[], first: number): void {
    const at = below(null, 'cells')
    for (const [index, value] of some.entries()) cell(value, below(at, first + index), this.#cells)
  }

  /** `members`: of the notebook, without its cells. All violations, as `validateNotebook` tells them. */
  end(members: Readonly<Record<string, unknown>>): FileWarning[] {
    const { metadata, nbformat, nbformat_minor } = members
    const first = validateNotebook({ metadata, nbformat, nbformat_minor, cells: [] }, this.#minor)
    const around = validateNotebook({ ...members, cells: [] }, this.#minor)
    return [...first, ...this.#cells.found, ...around.slice(first.length)].slice(0, MOST)
  }
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
    if (this.found.length >= MOST) return
    const steps: (string | number)[] = []
    for (let place = at; place !== null; place = place.above) steps.unshift(place.step)
    this.found.push({ at: placeOf(steps), reason })
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
        item(one, below(at, index), on)
      })
  }
const texts: Check = (value, at, on) => {
  if (!Array.isArray(value) || !value.every((line) => typeof line === 'string')) list(text)(value, at, on)
}
const lines: Check = (value, at, on) => {
  if (typeof value === 'string') return
  if (Array.isArray(value)) texts(value, at, on)
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

/** `what`: names the object in messages. `rules` by a function are those of a minor version, made once. */
const members = (what: string, rules: Members | ((minor: number) => Members)): Check => {
  const known = new Map<number, Ready>()
  const readyFor = (minor: number): Ready => {
    let ready = known.get(minor)
    if (ready === undefined) {
      ready = readyRules(typeof rules === 'function' ? rules(minor) : rules)
      known.set(minor, ready)
    }
    return ready
  }
  return (value, at, on) => {
    if (!isRecord(value)) {
      on.say(at, `${what} must be an object`)
      return
    }
    const { required, checks, open } = readyFor(on.minor)
    for (const [key, check] of required) {
      if (Object.hasOwn(value, key)) check(value[key], below(at, key), on)
      else on.say(at, `${what} needs "${key}"`)
    }
    for (const key of Object.keys(value)) {
      const check = checks.get(key)
      if (check === 'required') continue
      if (check) check(value[key], below(at, key), on)
      else if (!open && !on.later)
        on.say(below(at, key), `format 4.${on.minor} has no such member of ${what}; it is kept`)
    }
  }
}

interface Ready {
  readonly required: readonly (readonly [string, Check])[]
  readonly checks: ReadonlyMap<string, Check | 'required'>
  readonly open: boolean
}

function readyRules({ required, optional = {}, open = false }: Members): Ready {
  const checks = new Map<string, Check | 'required'>(Object.entries(optional))
  for (const key of Object.keys(required)) checks.set(key, 'required')
  return { required: Object.entries(required), checks, open }
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
    if (!/^application\/(.*\+)?json$/.test(mime)) lines(content, below(at, mime), on)
}
const attachments: Check = (value, at, on) => {
  if (!isRecord(value)) {
    on.say(at, 'expected an object of attachments')
    return
  }
  for (const [file, bundle] of Object.entries(value)) mimeBundle(bundle, below(at, file), on)
}
const cellId: Check = (value, at, on) => {
  if (typeof value === 'string' && value.length <= 64 && /^[a-zA-Z0-9-_]+$/.test(value)) return
  on.say(at, 'expected 1 to 64 letters, digits, "-" or "_"')
}

const notebookMetadata = members('metadata', (minor) => ({
  required: {},
  open: true,
  optional: {
    kernelspec: members('kernelspec', { required: { name: text, display_name: text }, open: true }),
    language_info: members('language_info', {
      required: { name: text },
      open: true,
      optional: {
        codemirror_mode: (value, at, on) => {
          if (typeof value !== 'string' && !isRecord(value)) on.say(at, 'expected a text or an object')
        },
        file_extension: text,
        mimetype: text,
        pygments_lexer: text,
      },
    }),
    orig_nbformat: (value, at, on) => {
      if (!Number.isInteger(value) || Number(value) < 1) on.say(at, 'expected a whole number of at least 1')
    },
    ...(minor >= 2 ? { title: text, authors: list(() => {}) } : {}),
  },
}))

const metadataOf = (minor: number, optional: Readonly<Record<string, Check>>): Check =>
  members('metadata', {
    required: {},
    open: true,
    optional: { name, tags, ...(minor >= 3 ? { jupyter: object } : {}), ...optional },
  })

const scrolled: Check = (value, at, on) => {
  if (typeof value !== 'boolean' && value !== 'auto') on.say(at, 'expected true, false or "auto"')
}
const times: Check = (value, at, on) => {
  if (!isRecord(value)) on.say(at, 'expected an object of times')
  else for (const [key, time] of Object.entries(value)) text(time, below(at, key), on)
}

const output: Check = (value, at, on) => {
  const type = isRecord(value) ? value.output_type : undefined
  const rules = typeof type === 'string' ? outputs[type] : undefined
  if (rules) rules(value, at, on)
  else if (!isRecord(value)) on.say(at, 'an output must be an object')
  else if (typeof type !== 'string') on.say(below(at, 'output_type'), 'expected a text')
  else if (!on.later)
    on.say(below(at, 'output_type'), `there is no output type ${JSON.stringify(type)}; it is kept`)
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
    required: { output_type: text, ename: text, evalue: text, traceback: texts },
  }),
}

/** Members that every cell has. */
const common = (minor: number): Pick<Members, 'optional'> => ({
  optional: minor >= 5 ? { id: cellId } : {},
})

const cells: Readonly<Record<string, Check>> = {
  raw: members('a raw cell', (minor) => ({
    required: { cell_type: text, metadata: metadataOf(minor, { format: text }), source: lines },
    optional: { ...common(minor).optional, attachments },
  })),
  markdown: members('a markdown cell', (minor) => ({
    required: { cell_type: text, metadata: metadataOf(minor, {}), source: lines },
    optional: { ...common(minor).optional, attachments },
  })),
  code: members('a code cell', (minor) => ({
    required: {
      cell_type: text,
      metadata: metadataOf(minor, {
        collapsed: truth,
        scrolled,
        ...(minor >= 4 ? { execution: times } : {}),
      }),
      source: lines,
      outputs: list(output),
      execution_count: count,
    },
    ...common(minor),
  })),
}

const cell: Check = (value, at, on) => {
  const type = isRecord(value) ? value.cell_type : undefined
  const rules = typeof type === 'string' ? cells[type] : undefined
  if (rules) rules(value, at, on)
  else if (!isRecord(value)) on.say(at, 'a cell must be an object')
  else if (!on.later)
    on.say(below(at, 'cell_type'), `there is no cell type ${JSON.stringify(type)}; it is kept`)
}

const notebook = members('a notebook', {
  required: { metadata: notebookMetadata, nbformat: () => {}, nbformat_minor: () => {}, cells: list(cell) },
})
