/** One execution in memory: its row, its growing outputs, and how far it is on its way to the kernel. */
import type { ExecutionId } from '../../protocol/ids.ts'
import { type ExecutionSummary, isTerminal } from '../../protocol/notebook.ts'
import type { Statement } from '../store/store.ts'
import type { Recorder } from './recorder.ts'
import { type Detail, type ExecutionRow, readDetail, summaryOf, updateExecution } from './rows.ts'

export class Live {
  readonly row: ExecutionRow
  /** What of the detail does not come from the recorder. */
  readonly detail: Detail
  readonly recorder: Recorder
  /** Sent to the kernel, or about to be without anything in between. Only ever set after the mark in its row is durable. */
  sent = false
  /** When the kernel said it was busy with it. */
  busyAt: number | null = null
  /** Its question (`detail.input`) is shown from `at` on (clock time), and at the latest at `latest`. null: at once. */
  question: { at: number; readonly latest: number } | null = null
  /** An answer to its input request is on its way. */
  answering = false
  /** Its kernel is gone and only its last outputs are still being taken. */
  leaving = false
  /** Changes handed over with it and not yet committed: as long as there are any, memory is the truth. */
  pins = 0
  /** Resolves when its terminal state is durable and told. */
  readonly ended: Promise<void>
  readonly tellEnded: () => void
  #rowTold: string

  constructor(row: ExecutionRow, recorder: Recorder) {
    this.row = row
    this.detail = readDetail(row)
    this.recorder = recorder
    let resolve = () => {}
    this.ended = new Promise((done) => {
      resolve = done
    })
    this.tellEnded = resolve
    this.#rowTold = this.#fingerprint()
  }

  get id(): ExecutionId {
    return this.row.execution_id
  }

  get terminal(): boolean {
    return isTerminal(this.row.status)
  }

  get summary(): ExecutionSummary {
    return summaryOf(this.row, this.#wholeDetail())
  }

  /** Statements that make rows what this is now. Call once a change, last. */
  rows(): Statement[] {
    const statements = this.recorder.rows()
    const now = this.#fingerprint()
    if (now !== this.#rowTold) {
      this.#rowTold = now
      statements.push(updateExecution(this.row, this.#wholeDetail()))
    }
    return statements
  }

  #wholeDetail(): Detail {
    const { reason, input, interrupted, partial, truncated, gaps } = this.detail
    return {
      ...(reason !== undefined ? { reason } : {}),
      ...(input ? { input } : {}),
      ...(interrupted ? { interrupted } : {}),
      ...(partial ? { partial } : {}),
      ...(truncated ? { truncated } : {}),
      ...(gaps ? { gaps } : {}),
      ...this.recorder.detail,
    }
  }

  #fingerprint(): string {
    const { status, execution_count, kernel_id, started_at, finished_at } = this.row
    return JSON.stringify([status, execution_count, kernel_id, started_at, finished_at, this.#wholeDetail()])
  }
}
