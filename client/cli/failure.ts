/**
 * Shows a failure: on stderr what happened, why and the next command; with `--json` also `{error: {code, message, retryable,
 * cause?, next?}}` on stdout. Says which exit code it is.
 */
import { type ErrorCode, RoomdError } from '../../protocol/errors.ts'
import { CommandFailure, ExitCode } from './exit-codes.ts'
import type { Terminal } from './terminal.ts'

/** The next command for codes whose message cannot know it is read in a shell. */
const nextCommands: Partial<Record<ErrorCode, string>> = {
  daemon_lost: 'roomd status',
  notebook_unavailable: 'roomd ps --all',
  not_found: 'roomd ps --all',
  kernel_not_found: 'roomd kernels',
  kernel_start_failed: 'roomd kernels',
  kernel_died: 'roomd restart-kernel ROOM',
  storage_full: 'roomd status',
  storage_failed: 'roomd logs',
  internal: 'roomd logs',
}

export function reportFailure(thrown: unknown, terminal: Terminal): ExitCode {
  const failure = describe(thrown)
  if (terminal.json) {
    const { code, message, retryable, cause, next } = failure
    terminal.result({
      error: {
        code,
        message,
        retryable,
        ...(cause === undefined ? {} : { cause }),
        ...(next === undefined ? {} : { next }),
      },
    })
  }
  terminal.note(`${terminal.paintNote('red', 'roomd:')} ${failure.message}`)
  if (failure.command) terminal.note(`  next: ${terminal.paintNote('bold', failure.command)}`)
  if (failure.stack) terminal.note(failure.stack)
  return failure.exit
}

interface Described {
  exit: ExitCode
  code: string
  message: string
  retryable: boolean
  cause?: unknown
  /** A tool call (from the daemon) or a command (from here). */
  next?: unknown
  command?: string | undefined
  stack?: string
}

function describe(thrown: unknown): Described {
  if (thrown instanceof CommandFailure) {
    const { exit, code, message, next } = thrown
    return {
      exit,
      code,
      message,
      retryable: exit === ExitCode.unreachable,
      command: next,
      ...(next === undefined ? {} : { next: { command: next } }),
    }
  }
  if (thrown instanceof RoomdError) {
    return {
      exit: thrown.code === 'daemon_lost' ? ExitCode.unreachable : ExitCode.failed,
      code: thrown.code,
      message: thrown.message,
      retryable: thrown.retryable,
      cause: thrown.detail,
      next: thrown.next,
      command: thrown.next?.tool === 'list_projects' ? 'roomd project list' : nextCommands[thrown.code],
    }
  }
  // A defect of ours: its place helps whoever reports it.
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  const stack = process.env.ROOMD_LOG_LEVEL === 'debug' && thrown instanceof Error ? thrown.stack : undefined
  return {
    exit: ExitCode.failed,
    code: 'internal',
    message,
    retryable: false,
    ...(stack === undefined ? {} : { stack }),
  }
}
