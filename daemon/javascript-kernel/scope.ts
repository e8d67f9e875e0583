/**
 * Which request a piece of user code works for. The scope follows it over timers, promises and callbacks, so that its outputs
 * carry the right parent, however late they come.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { inspect } from 'node:util'

export interface Scope {
  /** The request's ref between the threads. */
  readonly ref: number
  readonly allowStdin: boolean
  /** False when the request has been answered. */
  running: boolean
  /** Set by an interrupt, for ever: what still belongs to the execution must not go on. */
  interrupted: boolean
  /** Called with the error by an interrupt: the awaits of the cell that are pending. */
  readonly onInterrupt: Set<(error: KeyboardInterrupt) => void>
}

export function createScope(ref: number, allowStdin: boolean): Scope {
  const scope: Scope = { ref, allowStdin, running: true, interrupted: false, onInterrupt: new Set() }
  // Node hangs the scope on timers and the like, and shows it with them.
  Object.defineProperty(scope, inspect.custom, { value: () => '[cell]' })
  return scope
}

export const currentScope = new AsyncLocalStorage<Scope>()

/** What an interrupted cell throws; the name is the one that Jupyter's clients know. */
export class KeyboardInterrupt extends Error {
  constructor() {
    super('execution was interrupted')
    this.name = 'KeyboardInterrupt'
    this.stack = `${this.name}: ${this.message}`
  }
}

/** Node keeps its async ids, and our scopes, on promises as visible properties: showing a promise must not show them. */
export function hideAsyncIds(): void {
  const custom = {
    showPromise(this: object): object {
      for (const symbol of Object.getOwnPropertySymbols(this)) {
        if (!/^(async_id_symbol|trigger_async_id_symbol|kResourceStore)$/.test(symbol.description ?? ''))
          continue
        Object.defineProperty(this, symbol, { enumerable: false })
      }
      return this
    },
  }
  Object.defineProperty(Promise.prototype, inspect.custom, {
    value: custom.showPromise,
    writable: true,
    configurable: true,
  })
}
