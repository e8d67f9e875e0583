/** How executions end: which state and which words for what the kernel, or its end, says. Pure. */
import { RoomdError } from '../../protocol/errors.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import type { TerminalStatus } from '../../protocol/notebook.ts'
import type { Reply } from './messages.ts'

export type Ending = 'died' | 'restarted' | 'shutdown' | 'start_failed'

/** What the kernel's reply makes of an execution. `asked`: someone wanted it interrupted. null: the reply was lost. */
export function outcomeOf(
  reply: Reply | null,
  asked: boolean,
): { readonly status: TerminalStatus; readonly reason?: string | undefined } {
  switch (reply?.status) {
    case 'ok':
      return { status: 'done' }
    case 'error': {
      const interrupted = asked || reply.ename === 'KeyboardInterrupt'
      const reason = `${reply.ename}: ${reply.evalue}`.split('\n', 1)[0]?.slice(0, 500)
      return { status: interrupted ? 'interrupted' : 'error', reason }
    }
    case 'aborted':
      return { status: asked ? 'interrupted' : 'cancelled', reason: 'the kernel refused to run it' }
    case undefined:
      return { status: 'lost', reason: 'the kernel is idle again, but its reply was lost' }
  }
}

/** How an execution ends with its kernel. `ran`: it had been sent. */
export function statusAfter(ending: Ending, ran: boolean): TerminalStatus {
  switch (ending) {
    case 'start_failed':
      return 'error'
    case 'died':
      return ran ? 'lost' : 'cancelled'
    case 'restarted':
    case 'shutdown':
      return ran ? 'interrupted' : 'cancelled'
  }
}

export function notWaiting(executionId: ExecutionId, answered: boolean): RoomdError {
  return new RoomdError(
    'conflict',
    answered
      ? `the input that execution ${executionId} asked for was already answered`
      : `execution ${executionId} does not wait for input`,
    { next: { tool: 'get_results', arguments: { execution_id: executionId } } },
  )
}
