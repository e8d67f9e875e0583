/**
 * One run of a cell, from its source to exactly one outcome. The first outcome counts: the value, what was thrown, or the
 * interrupt. It is reported outside of any guard, so that an interrupt cannot cut the report.
 */

import { isThenable, prepareGlobals } from './cell-runtime.ts'
import { type CompiledCell, compileCell } from './cells.ts'
import { guarded, isInterrupt } from './guard.ts'
import { currentScope, KeyboardInterrupt, type Scope } from './scope.ts'

export type Outcome =
  | { readonly type: 'value'; readonly value: unknown; readonly shown: boolean }
  | { readonly type: 'error'; readonly error: unknown }

/** Not the global one: that is the user's, and wrapped. */
const nextTurn = setImmediate

export class Execution {
  readonly name: string
  readonly source: string
  readonly scope: Scope
  readonly #report: (outcome: Outcome) => void
  #settled = false

  /** `report` is called once, in a turn of its own or in the caller's of `start`. */
  constructor(source: string, name: string, scope: Scope, report: (outcome: Outcome) => void) {
    this.source = source
    this.name = name
    this.scope = scope
    this.#report = report
  }

  /** Runs the cell in a fresh turn of the event loop, whose async context is the cell's alone. */
  start(): void {
    nextTurn(() => {
      currentScope.enterWith(this.scope)
      this.#run()
    })
  }

  /** Ends it with KeyboardInterrupt. What belongs to it and still waits is told, and gets one turn to clean up. */
  interrupt(): void {
    if (this.#settled || this.scope.interrupted) return
    this.scope.interrupted = true
    for (const reject of this.scope.onInterrupt) reject(new KeyboardInterrupt())
    this.scope.onInterrupt.clear()
    // After the outcome of a cell that caught it, which takes one turn.
    nextTurn(() => nextTurn(() => this.#settle({ type: 'error', error: new KeyboardInterrupt() })))
  }

  #run(): void {
    if (this.scope.interrupted) return
    let outcome: Outcome | undefined
    try {
      const cell = compileCell(this.source, this.name)
      prepareGlobals(cell.declared)
      guarded(() => {
        outcome = this.#evaluate(cell)
      })
    } catch (error) {
      // Goes on to the event loop, as the guard demands; the kernel's handler calls interrupt().
      if (isInterrupt(error)) throw error
      outcome = { type: 'error', error }
    }
    if (outcome) this.#settle(outcome)
  }

  /** The outcome, or undefined when a promise will tell. */
  #evaluate(cell: CompiledCell): Outcome | undefined {
    const completion: unknown = cell.script.runInThisContext({ displayErrors: false })
    if (cell.async) {
      this.#follow(completion as Promise<{ value: unknown } | undefined>, (box) => {
        if (cell.hasValue && isThenable(box?.value))
          this.#follow(box.value, (value) => this.#later(value, true))
        else this.#later(box?.value, cell.hasValue)
      })
      return undefined
    }
    if (cell.hasValue && isThenable(completion)) {
      this.#follow(completion, (value) => this.#later(value, true))
      return undefined
    }
    return { type: 'value', value: completion, shown: cell.hasValue }
  }

  #follow<T>(promise: PromiseLike<T>, next: (value: T) => void): void {
    promise.then(next, (error: unknown) => nextTurn(() => this.#settle({ type: 'error', error })))
  }

  #later(value: unknown, shown: boolean): void {
    nextTurn(() => this.#settle({ type: 'value', value, shown }))
  }

  #settle(outcome: Outcome): void {
    if (this.#settled) return
    this.#settled = true
    this.#report(outcome)
  }
}
