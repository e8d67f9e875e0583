/**
 * What the first tool result after a restart starts with: one line that says what happened, the versions, and how the rejoin went.
 * Pure text; it never says more than is known.
 */
import type { JsonObject } from './jsonrpc.ts'
import type { End } from './restart-control.ts'
import { rejoinTarget, type SessionRef } from './target.ts'

export type Rejoin =
  /** No session was active, so there is nothing to rejoin. */
  | { readonly outcome: 'none' }
  /** The child has not told yet. */
  | { readonly outcome: 'pending'; readonly target: string }
  | { readonly outcome: 'succeeded'; readonly target: string; readonly readiness: JsonObject | null }
  | { readonly outcome: 'failed'; readonly target: string; readonly reason: string }

export interface Restarted {
  /** The ends since the last result, oldest first; never empty. */
  readonly ends: readonly End[]
  readonly before: string
  readonly after: string
  readonly parked: readonly SessionRef[]
  /** Tools that the old child offered and the new one does not. */
  readonly toolsGone: readonly string[]
}

export function banner(restarted: Restarted, rejoin: Rejoin): string {
  const { parked, toolsGone } = restarted
  return [
    `[roomd] ${whatHappened(restarted)}`,
    rejoinText(rejoin),
    ...(parked.length === 0
      ? []
      : [
          `Parked sessions were lost with it: ${parked.map((s) => rejoinTarget(s)).join(', ')}; connect_notebook brings each back.`,
        ]),
    ...(toolsGone.length === 0 ? [] : [`Tools no longer offered: ${toolsGone.join(', ')}.`]),
  ]
    .join(' ')
    .replace(/\s*[\r\n]+\s*/g, ' ')
}

function whatHappened({ ends, before, after }: Restarted): string {
  const last = ends.at(-1)
  const again = ends.length > 1 ? ` (${ends.length} times since the last result)` : ''
  const cause = ends.some((end) => end.kind === 'handoff') ? 'handoff' : (last?.kind ?? 'crash')
  const upgraded = before !== after
  switch (cause) {
    case 'handoff':
      return upgraded
        ? `The MCP child made room for another version${again}: ${before} → ${after}.`
        : `The MCP child made room for the daemon's version${again}; it is ${after} still.`
    case 'asked':
      return `The MCP child was restarted as asked${again}${versions(before, after)}.`
    case 'crash':
      return `The MCP child ended unexpectedly (${last?.detail ?? 'unknown'}) and was restarted${again}${versions(before, after)}.`
  }
}

function versions(before: string, after: string): string {
  return before === after ? ` (${after})` : `: ${before} → ${after}`
}

export function rejoinText(rejoin: Rejoin): string {
  switch (rejoin.outcome) {
    case 'none':
      return 'No notebook was active.'
    case 'pending':
      return `Rejoin in progress: ${rejoin.target}.`
    case 'succeeded':
      return `Rejoined ${rejoin.target}${readinessText(rejoin.readiness)}.`
    case 'failed':
      return `Rejoining ${rejoin.target} failed: ${rejoin.reason.replace(/\.?\s*$/, '')}. connect_notebook brings it back.`
  }
}

/** "; readiness: projection ready, document syncing, runtime none" */
function readinessText(readiness: JsonObject | null): string {
  if (readiness === null) return ''
  const parts = Object.entries(readiness).flatMap(([component, state]) =>
    typeof state === 'string' ? [`${component} ${state}`] : [],
  )
  return parts.length === 0 ? '' : `; readiness: ${parts.join(', ')}`
}
