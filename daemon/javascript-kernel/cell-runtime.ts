/** What rewritten cells call: one hidden, fixed global object. */
import { pathToFileURL } from 'node:url'
import { enterGuard } from './guard.ts'
import { hidden, withoutMarks } from './hidden.ts'
import { currentScope, KeyboardInterrupt } from './scope.ts'

/** An execution that caught its interrupt and awaits again stays here, for ever: it has ended. */
const never = new Promise<never>(() => {})

const runtime = Object.freeze({
  enter: enterGuard,

  /** A top-level await: ends with the interrupt of its execution. */
  settled(value: unknown): unknown {
    const scope = currentScope.getStore()
    if (scope?.interrupted) return never
    if (!scope?.running || !isThenable(value)) return value
    return new Promise((resolve, reject) => {
      scope.onInterrupt.add(reject)
      const done = (settle: (value: unknown) => void) => (result: unknown) => {
        scope.onInterrupt.delete(reject)
        settle(result)
      }
      Promise.resolve(value).then(done(resolve), done(reject))
    })
  },

  /** Awaits in functions, before and after: no tick is added, and an interrupted execution does not go on. */
  awaiting(value: unknown): unknown {
    return currentScope.getStore()?.interrupted ? never : value
  },
  resumed(value: unknown): unknown {
    if (currentScope.getStore()?.interrupted) throw new KeyboardInterrupt()
    return value
  },

  /** The iterable of a top-level `for await`. */
  iterate(iterable: AsyncIterable<unknown> | Iterable<unknown>): AsyncIterableIterator<unknown> {
    const iterator =
      Symbol.asyncIterator in iterable ? iterable[Symbol.asyncIterator]() : settledValues(iterable)
    return {
      async next() {
        return (await runtime.settled(iterator.next())) as IteratorResult<unknown>
      },
      async return(value) {
        return (await iterator.return?.(value)) ?? { done: true, value }
      },
      [Symbol.asyncIterator]() {
        return this
      },
    }
  },

  /** Checks that a module exports the names that an import statement takes from it, as a static import does. */
  exported(module: Record<string, unknown>, names: string[], from: string): Record<string, unknown> {
    const result: Record<string, unknown> = {}
    for (const name of names) {
      const fallback: unknown = module.default
      if (name in module) result[name] = module[name]
      // CommonJS modules whose exports Node cannot see beforehand.
      else if (isObject(fallback) && name in fallback) result[name] = Reflect.get(fallback, name)
      else throw new SyntaxError(`The requested module '${from}' does not provide an export named '${name}'`)
    }
    return result
  },

  /** `import.meta` */
  get meta(): ImportMeta {
    const folder = process.cwd()
    return {
      url: pathToFileURL(`${folder}/`).href,
      dirname: folder,
      filename: folder,
      resolve: (name: string) => import.meta.resolve(name, pathToFileURL(`${folder}/`).href),
    } as ImportMeta
  },
})

/** `for await` over what is not asynchronous awaits the values. */
async function* settledValues(iterable: Iterable<unknown>): AsyncGenerator<unknown> {
  for (const value of iterable) yield await value
}

/** Must run before the first guard. */
export function installCellRuntime(): void {
  Object.defineProperty(globalThis, hidden, { value: runtime })
  const original = Function.prototype.toString
  const shown = {
    // Libraries that send a function elsewhere as text (browsers, workers) must get what the user wrote.
    toString(this: unknown): string {
      if (this === shown) return 'function toString() { [native code] }'
      return withoutMarks(Reflect.apply(original, this, []))
    },
  }.toString
  Object.defineProperty(Function.prototype, 'toString', {
    value: shown,
    writable: true,
    configurable: true,
  })
}

/**
 * Makes the global names a cell declares ordinary properties: some of Node's (`crypto`, `navigator`) are getters, which a `var`
 * would not replace.
 */
export function prepareGlobals(names: readonly string[]): void {
  for (const name of names) {
    const descriptor = Object.getOwnPropertyDescriptor(globalThis, name)
    if (!descriptor?.configurable || descriptor.writable) continue
    Object.defineProperty(globalThis, name, {
      value: undefined,
      writable: true,
      enumerable: true,
      configurable: true,
    })
  }
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (value instanceof Promise) return true
  return isObject(value) && typeof Reflect.get(value, 'then') === 'function'
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}
