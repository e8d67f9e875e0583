/**
 * Which calls may be sent now. A gate is closed only while what it needs is still on its way; a state that does not pass by
 * itself (a conflict, a failed kernel) is the daemon's to refuse, with an error that says what to do.
 */
import type { Gate } from '../../protocol/methods.ts'
import type { Readiness } from '../../protocol/notebook.ts'

export function gateOpen(gate: Gate, readiness: Readiness): boolean {
  switch (gate) {
    case 'none':
      return true
    case 'projection':
    case 'runtime':
      return readiness.projection !== 'pending'
    case 'document':
    case 'mutate':
    case 'execute':
      return readiness.document === 'interactive' || readiness.projection === 'degraded'
  }
}
