/** Parsing a cell as JavaScript, and walking its tree. */
import { type Node, type Program, parse } from 'acorn'

export type { Node, Program } from 'acorn'

/** A syntax error at a place of the cell; line from 1, column from 0. */
export class CellSyntaxError extends SyntaxError {
  readonly line: number
  readonly column: number
  /** Offset in the source. */
  readonly at: number

  constructor(message: string, line: number, column: number, at: number) {
    super(message)
    this.name = 'SyntaxError'
    this.line = line
    this.column = column
    this.at = at
  }
}

/** A cell is a script in which top-level await, import and export are allowed. Throws CellSyntaxError. */
export function parseCell(code: string): Program {
  try {
    return parse(code, {
      ecmaVersion: 'latest',
      sourceType: 'script',
      allowAwaitOutsideFunction: true,
      allowImportExportEverywhere: true,
      allowHashBang: true,
    })
  } catch (error) {
    const { loc, pos, message } = error as SyntaxError & {
      loc?: { line: number; column: number }
      pos?: number
    }
    if (!loc) throw error
    throw new CellSyntaxError(message.replace(/ \(\d+:\d+\)$/, ''), loc.line, loc.column, pos ?? 0)
  }
}

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string'
}

/** Calls `visit` for each node, parents first; `functions` is how many functions are around it. */
export function walk(node: Node, visit: (node: Node, functions: number, parent: Node | null) => void): void {
  step(node, 0, null, visit)
}

function step(
  node: Node,
  functions: number,
  parent: Node | null,
  visit: (node: Node, functions: number, parent: Node | null) => void,
): void {
  visit(node, functions, parent)
  const inside = functions + (startsFunction(node) ? 1 : 0)
  for (const key of Object.keys(node)) {
    const value: unknown = Reflect.get(node, key)
    if (Array.isArray(value)) {
      for (const item of value) if (isNode(item)) step(item, inside, node, visit)
    } else if (isNode(value)) step(value, inside, node, visit)
  }
}

/** Field initialisers and static blocks are functions as far as await and var go. */
function startsFunction(node: Node): boolean {
  switch (node.type) {
    case 'FunctionDeclaration':
    case 'FunctionExpression':
    case 'ArrowFunctionExpression':
    case 'PropertyDefinition':
    case 'StaticBlock':
      return true
    default:
      return false
  }
}
