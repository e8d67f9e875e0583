/**
 * `flow-trace.json`, in the three shapes that programs write under that name: policies of a policy server, one pipeline, or a list
 * of pipelines with the newest last.
 */
import { isJsonObject, type JsonObject, parseLenient, UnreadableFile } from './lenient-json.ts'

export interface FlowTrace {
  readonly policies: number
  /** Summed `duration_ms`. */
  readonly milliseconds: number
  readonly decisions: ReadonlyArray<{ readonly policy: string; readonly decision: string }>
  readonly warnings: readonly string[]
}

const nothing: FlowTrace = { policies: 0, milliseconds: 0, decisions: [], warnings: [] }

export function readFlowTrace(text: string | null): FlowTrace {
  if (text === null) return nothing
  let value: unknown
  try {
    value = parseLenient(text)
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    return { ...nothing, warnings: [`flow-trace.json could not be read: ${error.message}`] }
  }
  const trace = Array.isArray(value) ? value.at(-1) : value
  if (!isJsonObject(trace)) {
    const empty = trace === undefined || trace === null || trace === false || trace === 0 || trace === ''
    return empty ? nothing : { ...nothing, warnings: ['flow-trace.json holds no object; it was skipped'] }
  }
  const own = objectsOf(trace.all_policies_executed)
  const pipeline = objectsOf(trace.pipeline)
  const steps = own.items.length > 0 ? own.items : pipeline.items
  const timeline = objectsOf(trace.decisions_timeline)
  const decisions =
    timeline.items.length > 0
      ? timeline.items.map((entry) => ({ policy: textOf(entry.policy), decision: textOf(entry.decision) }))
      : pipeline.items
          .filter((step) => step.decision !== undefined && step.decision !== null && step.decision !== '')
          .map((step) => ({ policy: textOf(step.name ?? step.step), decision: textOf(step.decision) }))
  const skipped = own.skipped + pipeline.skipped + timeline.skipped
  return {
    policies: steps.length,
    milliseconds: steps.reduce(
      (sum, step) => sum + (typeof step.duration_ms === 'number' ? step.duration_ms : 0),
      0,
    ),
    decisions,
    warnings: skipped === 0 ? [] : [`flow-trace.json: ${skipped} entries that are no objects were skipped`],
  }
}

function objectsOf(value: unknown): { items: JsonObject[]; skipped: number } {
  if (!Array.isArray(value)) return { items: [], skipped: 0 }
  const items = value.filter(isJsonObject)
  return { items, skipped: value.length - items.length }
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return value === undefined || value === null ? '' : JSON.stringify(value)
}
