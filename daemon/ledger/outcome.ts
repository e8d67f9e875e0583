/** How the ledger's calls end for their callers: a success with its members, or a failure that changed nothing. */

export interface Failure {
  readonly success: false
  readonly error: string
  readonly error_type?: string
  readonly rev?: number
}

export function failure(error: string, type?: string): Failure {
  return { success: false, error, ...(type === undefined ? {} : { error_type: type }) }
}

/** A name or value that breaks its rule. */
export function valueError(error: string): Failure {
  return failure(error, 'ValueError')
}

export function notFound(sessionId: string): Failure {
  return failure(`Session not found: ${sessionId}`)
}

/** `null` when there is no expectation or it holds. */
export function revFault(expected: number | undefined, present: number): Failure | null {
  if (expected === undefined || expected === present) return null
  return {
    ...failure(
      `CONFLICT: the session is at rev ${present}, not ${expected}: somebody else changed it. Read it, then call again with the new rev`,
      'CONFLICT',
    ),
    rev: present,
  }
}
