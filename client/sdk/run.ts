/** One execution that this client asked for, to follow and to end. It goes on whether or not anybody follows it. */
import { RoomdError } from '../../protocol/errors.ts'
import type { ExecutionId } from '../../protocol/ids.ts'
import {
  type Execution,
  type ExecutionSummary,
  isTerminal,
  type Output,
  type TerminalStatus,
} from '../../protocol/notebook.ts'
import type { ExecutionRecord } from './execution-record.ts'
import { type ReadText, streamOutputs } from './output-stream.ts'

/** How a run ended; `execution` has its outputs (texts over some hundred KiB shortened to head and tail). */
export interface RunResult {
  readonly status: TerminalStatus
  readonly execution: Execution
}

export class Run {
  /** Durable: names this run for ever, also after restarts. */
  readonly id: ExecutionId
  /** The cell was queued or running already, and this is that run. */
  readonly alreadyActive: boolean
  /**
   * Resolves when the run has ended and all its outputs are here. Rejects only when that cannot be found out any more: the room
   * was closed (`client_closed`) or is gone (`notebook_unavailable`).
   */
  readonly done: Promise<RunResult>
  readonly #record: ExecutionRecord
  readonly #readText: ReadText
  readonly #cancel: () => Promise<ExecutionSummary>

  /** Made by the room. */
  constructor(
    record: ExecutionRecord,
    options: { alreadyActive: boolean; readText: ReadText; cancel: () => Promise<ExecutionSummary> },
  ) {
    this.id = record.id
    this.alreadyActive = options.alreadyActive
    this.#record = record
    this.#readText = options.readText
    this.#cancel = options.cancel
    this.done = ended(record)
    // Nobody has to wait for the end; whoever does gets the rejection.
    this.done.catch(() => {})
  }

  /** As it is now, outputs so far included. */
  get execution(): Execution {
    return this.#record.execution()
  }

  /**
   * The outputs from the first one on, as they come, until the run has ended: showing each in turn shows everything exactly
   * once. Streams come in pieces of new text; see output-stream.ts for text that is rewritten. Can be called more than once, also
   * after the end. Throws what `done` rejects with, or `client_aborted`; the run goes on.
   */
  outputs(options: { signal?: AbortSignal } = {}): AsyncGenerator<Output, void> {
    return streamOutputs(this.#record, this.#readText, options.signal)
  }

  /** Interrupts it if it runs, cancels it if it is queued, changes nothing if it has ended. */
  interrupt(): Promise<ExecutionSummary> {
    return this.#cancel()
  }
}

function ended(record: ExecutionRecord): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    const look = (): boolean => {
      const { status } = record.summary
      if (isTerminal(status)) resolve({ status, execution: record.execution() })
      else if (record.error) {
        reject(
          record.error instanceof RoomdError
            ? record.error
            : new RoomdError('outcome_unknown', record.error.message),
        )
      } else return false
      return true
    }
    if (look()) return
    const unsubscribe = record.subscribe(() => {
      if (look()) unsubscribe()
    })
  })
}
