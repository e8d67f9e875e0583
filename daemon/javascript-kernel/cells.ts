/** From the source of a cell to a script that can run, and back from places in the script to places in the cell. */
import { join } from 'node:path'
import vm from 'node:vm'
import type { Program } from 'acorn'
import { quietImports } from './quiet-imports.ts'
import { rewriteCell } from './rewrite.ts'
import { lookup, type Position } from './source-positions.ts'
import { CellSyntaxError, parseCell, walk } from './syntax-tree.ts'
import { transpile } from './typescript.ts'

export interface CompiledCell {
  readonly script: vm.Script
  readonly declared: readonly string[]
  readonly async: boolean
  readonly hasValue: boolean
}

/** A place in a cell; `source` is the text of its line. */
export interface CellPlace extends Position {
  readonly name: string
  readonly source: string
}

interface KnownCell {
  readonly name: string
  readonly lines: readonly string[]
  locate(line: number, column: number): Position | undefined
}

/** Cells whose places can still be told; older ones show the places of the rewritten code. */
const keptCells = 2000
const known = new Map<string, KnownCell>()

/**
 * Compiles a cell; `name` appears in stack traces. JavaScript is tried first, then TypeScript. Throws CellSyntaxError, or V8's
 * SyntaxError for what only V8 finds.
 */
export function compileCell(source: string, name: string): CompiledCell {
  quietImports()
  const parsed = parseAny(source)
  const rewritten = rewriteCell(parsed.code, parsed.program)
  // A file in the working directory, as far as imports are concerned.
  const filename = join(process.cwd(), name)
  remember(filename, {
    name,
    lines: source.split('\n'),
    locate(line, column) {
      const place = rewritten.positionOf(line, column)
      return place && parsed.original(place)
    },
  })
  const script = new vm.Script(rewritten.code, {
    filename,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })
  return { script, declared: rewritten.declared, async: rewritten.async, hasValue: rewritten.hasValue }
}

/** True for the file name of a cell's script. */
export function isCell(filename: string): boolean {
  return known.has(filename)
}

/** Where a place of a running script is in its cell; undefined for what the kernel has added. */
export function cellPlace(filename: string, line: number, column: number): CellPlace | undefined {
  const cell = known.get(filename)
  const place = cell?.locate(line, column)
  if (!cell || !place) return undefined
  return { name: cell.name, line: place.line, column: place.column, source: cell.lines[place.line - 1] ?? '' }
}

interface Parsed {
  /** With one leading space, as rewriteCell wants it. */
  readonly code: string
  readonly program: Program
  original(place: Position): Position | undefined
}

function parseAny(source: string): Parsed {
  const text = source.startsWith('#!') ? `//${source.slice(2)}` : source
  const literal = objectLiteral(text)
  if (literal) return literal
  let failure: CellSyntaxError
  try {
    const program = parseCell(` ${text}`)
    if (!looksGeneric(program)) return { code: ` ${text}`, program, original: (place) => place }
    failure = new CellSyntaxError('not JavaScript', 1, 0, 0)
  } catch (error) {
    if (!(error instanceof CellSyntaxError)) throw error
    failure = withoutSpace(error)
  }
  try {
    const { code, map } = transpile(text)
    const original = ({ line, column }: Position): Position | undefined => lookup(map, line, column)
    return { code: ` ${code}`, program: parseCell(` ${code}`), original }
  } catch (error) {
    // The parser that got further understood more of what was meant.
    if (error instanceof CellSyntaxError && error.at > failure.at) throw error
    throw failure
  }
}

/** `{a: 1}` alone is meant as an object, as in Node's REPL. */
function objectLiteral(text: string): Parsed | undefined {
  const trimmed = text.trim()
  if (!trimmed.startsWith('{') || !trimmed.endsWith('}')) return undefined
  const code = `(${text}\n)`
  try {
    const program = parseCell(code)
    const [statement] = program.body
    if (program.body.length !== 1 || statement?.type !== 'ExpressionStatement') return undefined
    if (statement.expression.type !== 'ObjectExpression') return undefined
    // Wrapped behind the space that rewriting wants; the columns of line 1 are then one too far.
    const original = (place: Position): Position =>
      place.line === 1 ? { line: 1, column: Math.max(1, place.column - 1) } : place
    return { code: ` ${code}`, program: parseCell(` ${code}`), original }
  } catch {
    // A block, or no JavaScript at all: the ordinary way finds out.
    return undefined
  }
}

/** `f<T>(x)` is JavaScript too, two comparisons, but nobody means that. */
function looksGeneric(program: Program): boolean {
  let found = false
  walk(program, (node) => {
    if (node.type !== 'BinaryExpression') return
    const outer = node as unknown as Comparison
    const inner = outer.left as unknown as Comparison
    if (outer.operator === '>' && inner.type === 'BinaryExpression' && inner.operator === '<') {
      // Written together and followed by a parenthesis, which the tree does not keep: spaces decide.
      if (inner.right.start === inner.left.end + 1 && outer.right.start >= inner.right.end + 2) found = true
    }
  })
  return found
}

interface Comparison {
  readonly type: string
  readonly operator: string
  readonly left: { readonly start: number; readonly end: number }
  readonly right: { readonly start: number; readonly end: number }
}

function withoutSpace(error: CellSyntaxError): CellSyntaxError {
  const column = error.line === 1 ? Math.max(0, error.column - 1) : error.column
  return new CellSyntaxError(error.message, error.line, column, Math.max(0, error.at - 1))
}

function remember(filename: string, cell: KnownCell): void {
  known.delete(filename)
  known.set(filename, cell)
  const oldest = known.keys().next()
  if (known.size > keptCells && !oldest.done) known.delete(oldest.value)
}
