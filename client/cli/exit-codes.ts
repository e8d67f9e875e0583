/**
 * What a command ends with, and the error that carries it. Loads nothing, so that the fast commands stay fast; errors of the
 * protocol are told apart in `failure.ts`, which loads only when something failed.
 */

/** Exit codes of every command; 128 + signal number where a signal ended it. */
export const ExitCode = {
  done: 0,
  /** A notebook error or a refused action. */
  failed: 1,
  usage: 2,
  /** No daemon could be reached, or none runs. */
  unreachable: 69,
  /** An MCP child that makes room for another version of the daemon. */
  handoff: 75,
  /** The second Ctrl-C of a command that was left running. */
  left: 130,
} as const
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode]

/** A failure that the command line itself finds. `message`: what happened and why; `next`: the command that helps. */
export class CommandFailure extends Error {
  readonly exit: ExitCode
  readonly code: string
  readonly next: string | undefined

  constructor(exit: ExitCode, code: string, message: string, next?: string) {
    super(message)
    this.name = 'CommandFailure'
    this.exit = exit
    this.code = code
    this.next = next
  }
}
