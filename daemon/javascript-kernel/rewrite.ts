/**
 * Rewrites a cell so that its declarations become properties of the global object: they can be declared again, and functions of
 * earlier cells see the new value. A cell without await or import stays a script. Others become an async function whose
 * functions are hoisted in front of it. Lines are kept where possible; `positionOf` maps every place back.
 */
import type { SourceMap } from 'node:module'
import type {
  AnonymousClassDeclaration,
  AnyNode,
  AwaitExpression,
  ClassDeclaration,
  ExportDefaultDeclaration,
  ExportNamedDeclaration,
  ForOfStatement,
  FunctionDeclaration,
  ImportDeclaration,
  Pattern,
  VariableDeclaration,
} from 'acorn'
import MagicString from 'magic-string'
import { close, hidden, open } from './hidden.ts'
import { lookup, type Position, sourceMapOf } from './source-positions.ts'
import { type Node, type Program, walk } from './syntax-tree.ts'

export interface RewrittenCell {
  readonly code: string
  /** Names that the cell declares on the global object. */
  readonly declared: readonly string[]
  /** The script's completion value is a promise of `{ value }`, or of nothing. */
  readonly async: boolean
  /** The last statement is an expression. */
  readonly hasValue: boolean
  /** Lines from 1, columns from 1, as in stack traces; undefined for what the rewriting has added. */
  positionOf(line: number, column: number): Position | undefined
}

/** `program` is the tree of `source`, which begins with one space that is not the user's. */
export function rewriteCell(source: string, program: Program): RewrittenCell {
  const rewriting = new Rewriting(source, program)
  return rewriting.run()
}

class Rewriting {
  readonly #source: string
  readonly #program: Program
  readonly #text: MagicString
  readonly #declared = new Set<string>()
  readonly #varsInBlocks: { node: VariableDeclaration; parent: Node }[] = []
  #async = false

  constructor(source: string, program: Program) {
    this.#source = source
    this.#program = program
    this.#text = new MagicString(source)
  }

  run(): RewrittenCell {
    this.#expressions()
    const body = this.#program.body as AnyNode[]
    for (const statement of body) this.#statement(statement)
    for (const { node, parent } of this.#varsInBlocks) {
      for (const declarator of node.declarations) this.#declare(declarator.id)
      if (this.#async) this.#assignment(node, parent)
    }
    const last = body.filter((statement) => statement.type !== 'EmptyStatement').at(-1)
    const hasValue = last?.type === 'ExpressionStatement' || defaultExpression(last)
    if (this.#async) this.#wrap(hasValue ? last : undefined)
    const text = this.#text
    let map: SourceMap | undefined
    return {
      code: text.toString(),
      declared: [...this.#declared],
      async: this.#async,
      hasValue,
      positionOf(line, column) {
        map ??= sourceMapOf(text.generateMap({ hires: true }).toString())
        const found = lookup(map, line, column)
        // The extra space of the first line.
        return found?.line === 1 ? { line: 1, column: Math.max(1, found.column - 1) } : found
      },
    }
  }

  /** Awaits, dynamic meta properties and nested vars, wherever they are. */
  #expressions(): void {
    walk(this.#program, (node, functions, parent) => {
      switch (node.type) {
        case 'AwaitExpression':
          if (functions === 0) this.#topAwait(node as AwaitExpression)
          else this.#nestedAwait(node as AwaitExpression)
          return
        case 'ForOfStatement': {
          const loop = node as ForOfStatement
          if (!loop.await || functions > 0) return
          this.#async = true
          this.#around(loop.right, `${hidden}.iterate((`, '))')
          return
        }
        case 'MetaProperty':
          if (this.#source.startsWith('import', node.start))
            this.#text.overwrite(node.start, node.end, `${hidden}.meta`)
          return
        case 'ImportDeclaration':
          this.#async = true
          return
        case 'VariableDeclaration':
          if (
            functions === 0 &&
            parent &&
            parent.type !== 'Program' &&
            parent.type !== 'ExportNamedDeclaration'
          ) {
            const declaration = node as VariableDeclaration
            if (declaration.kind === 'var') this.#varsInBlocks.push({ node: declaration, parent })
          }
      }
    })
  }

  /** The cell's own awaits end at once when it is interrupted. */
  #topAwait(node: AwaitExpression): void {
    this.#async = true
    this.#around(node.argument, `${hidden}.settled((`, '))')
  }

  /** Awaits in functions keep their timing; when the execution was interrupted they throw as they resume. */
  #nestedAwait(node: AwaitExpression): void {
    this.#text.appendRight(node.start, `${open}${hidden}.resumed(${close}`)
    this.#text.appendRight(node.argument.start, `${open}${hidden}.awaiting((${close}`)
    this.#text.appendLeft(node.argument.end, `${open}))${close}`)
    this.#text.appendLeft(node.end, `${open})${close}`)
  }

  #around(node: Node, before: string, after: string): void {
    // Parents come first: what a child adds at the same place goes inside.
    this.#text.appendRight(node.start, before)
    this.#text.appendLeft(node.end, after)
  }

  #statement(node: AnyNode): void {
    switch (node.type) {
      case 'VariableDeclaration':
        for (const declarator of node.declarations) this.#declare(declarator.id)
        if (this.#async) this.#assignment(node, this.#program)
        else this.#globalVar(node)
        return
      case 'FunctionDeclaration':
        if (!node.id) return
        this.#declared.add(node.id.name)
        if (this.#async) this.#text.move(node.start, node.end, 0)
        return
      case 'ClassDeclaration':
        this.#class(node)
        return
      case 'ImportDeclaration':
        this.#import(node)
        return
      case 'ExportNamedDeclaration':
        this.#export(node)
        return
      case 'ExportDefaultDeclaration':
        this.#exportDefault(node)
        return
      case 'ExportAllDeclaration':
        this.#text.overwrite(node.start, node.end, `import(${node.source.raw});`)
        return
      default:
        return
    }
  }

  #globalVar(node: VariableDeclaration): void {
    if (node.kind === 'var') return
    this.#text.overwrite(node.start, node.start + node.kind.length, 'var'.padEnd(node.kind.length))
    for (const { id, init } of node.declarations) if (!init) this.#text.appendLeft(id.end, ' = undefined')
  }

  /** In the async function a declaration becomes an assignment to the global that stands in front of it. */
  #assignment(node: VariableDeclaration, parent: Node): void {
    const keyword = node.start + node.kind.length
    const isLoopHead = /^For/.test(parent.type) && (parent as { body?: Node }).body !== node
    if (isLoopHead) {
      this.#text.remove(node.start, keyword)
      return
    }
    // `void (` cannot be taken for the rest of a line before it that has no semicolon.
    this.#text.overwrite(node.start, keyword, 'void (')
    for (const { id, init } of node.declarations) {
      if (!init && node.kind === 'let') this.#text.appendLeft(id.end, ' = undefined')
    }
    const end = this.#source[node.end - 1] === ';' ? node.end - 1 : node.end
    this.#text.appendLeft(end, end === node.end ? ');' : ')')
  }

  #class(node: ClassDeclaration | AnonymousClassDeclaration): void {
    if (!node.id) return
    this.#declared.add(node.id.name)
    const assign = `${node.id.name} = `
    this.#text.prependRight(node.start, this.#async ? assign : `var ${assign}`)
    this.#text.appendLeft(node.end, ';')
  }

  #import(node: ImportDeclaration): void {
    const attributes = node.attributes ?? []
    const options =
      attributes.length > 0 ? `, { with: { ${attributes.map((a) => this.#slice(a)).join(', ')} } }` : ''
    const wanted: string[] = []
    const targets: string[] = []
    let namespace = ''
    for (const specifier of node.specifiers) {
      this.#declared.add(specifier.local.name)
      if (specifier.type === 'ImportNamespaceSpecifier') {
        namespace = `${specifier.local.name} = `
        continue
      }
      const imported =
        specifier.type === 'ImportDefaultSpecifier' ? '"default"' : nameText(specifier.imported)
      wanted.push(imported)
      targets.push(`${imported}: ${specifier.local.name}`)
    }
    const module = `await ${hidden}.settled(import(${node.source.raw}${options}))`
    const pattern = targets.length > 0 ? `{ ${targets.join(', ')} } = ` : ''
    const value =
      targets.length > 0
        ? `${hidden}.exported(${namespace}${module}, [${wanted.join(', ')}], ${node.source.raw})`
        : `${namespace}${module}`
    this.#text.overwrite(node.start, node.end, `void (${pattern}${value});`)
  }

  /** A cell exports nothing: the keyword is dropped, so that code pasted from a module works. */
  #export(node: ExportNamedDeclaration): void {
    if (node.declaration) {
      this.#text.remove(node.start, node.declaration.start)
      this.#statement(node.declaration as AnyNode)
    } else if (node.source) this.#text.overwrite(node.start, node.end, `import(${node.source.raw});`)
    else this.#text.overwrite(node.start, node.end, ';')
  }

  #exportDefault(node: ExportDefaultDeclaration): void {
    const { declaration } = node
    this.#text.remove(node.start, declaration.start)
    const named = declaration.type === 'FunctionDeclaration' || declaration.type === 'ClassDeclaration'
    if (named && declaration.id) this.#statement(declaration as FunctionDeclaration | ClassDeclaration)
    else if (named) this.#around(declaration, '(', ');')
  }

  #wrap(value: AnyNode | undefined): void {
    if (value) {
      const statement = value.type === 'ExportDefaultDeclaration' ? value.declaration : value
      const end = this.#source[statement.end - 1] === ';' ? statement.end - 1 : statement.end
      this.#text.prependRight(statement.start, 'return { value: (')
      this.#text.appendLeft(end, ') }')
    }
    const names = this.#declared.size > 0 ? `var ${[...this.#declared].join(', ')}; ` : ''
    this.#text.overwrite(0, 1, '; (async () => {')
    this.#text.prepend(names)
    this.#text.append('\n})()')
  }

  #declare(pattern: Pattern): void {
    switch (pattern.type) {
      case 'Identifier':
        this.#declared.add(pattern.name)
        return
      case 'ObjectPattern':
        for (const property of pattern.properties) {
          this.#declare(property.type === 'RestElement' ? property.argument : property.value)
        }
        return
      case 'ArrayPattern':
        for (const element of pattern.elements) if (element) this.#declare(element)
        return
      case 'RestElement':
        this.#declare(pattern.argument)
        return
      case 'AssignmentPattern':
        this.#declare(pattern.left)
        return
      case 'MemberExpression':
        return
    }
  }

  #slice(node: Node): string {
    return this.#source.slice(node.start, node.end)
  }
}

function nameText(node: { type: string }): string {
  return JSON.stringify(
    node.type === 'Identifier' ? (node as { name?: string }).name : (node as { value?: string }).value,
  )
}

function defaultExpression(node: AnyNode | undefined): boolean {
  if (node?.type !== 'ExportDefaultDeclaration') return false
  return node.declaration.type !== 'FunctionDeclaration' && node.declaration.type !== 'ClassDeclaration'
}
