/** The kernel's own calls into user code (showing values and errors): guarded, and never throwing. */
import { type ErrorFields, errorFields } from './errors.ts'
import { guarded, isInterrupt } from './guard.ts'
import { KeyboardInterrupt } from './scope.ts'

/** Showing an error may run its code too; when that is interrupted, the interrupt is shown. */
export function shownError(error: unknown, cell?: { name: string; source: string }): ErrorFields {
  let fields: ErrorFields | undefined
  attempt(() => {
    fields = errorFields(error, cell)
  })
  return fields ?? errorFields(new KeyboardInterrupt())
}

export interface Failure {
  readonly error: unknown
  /** Must reach the event loop when the failure has been reported (see guard). */
  readonly interrupt?: unknown
}

/** Runs work that may call user code in a guard. */
export function attempt(work: () => void): Failure | undefined {
  try {
    guarded(work)
    return undefined
  } catch (error) {
    return isInterrupt(error) ? { error: new KeyboardInterrupt(), interrupt: error } : { error }
  }
}
