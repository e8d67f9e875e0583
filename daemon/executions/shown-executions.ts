/** What the cells of a large room show, gathered some at a time and handed over at once. */
import type { CellId, ExecutionId } from '../../protocol/ids.ts'
import type { ExecutionSummary } from '../../protocol/notebook.ts'
import type { ShownExecution } from './reading.ts'

export class ShownExecutions {
  readonly cells = new Map<CellId, ExecutionId>()
  readonly summaries = new Map<ExecutionId, ExecutionSummary>()

  add({ cell_id, execution }: ShownExecution): void {
    this.cells.set(cell_id, execution.execution_id)
    this.summaries.set(execution.execution_id, execution)
  }
}
