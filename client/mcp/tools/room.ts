/**
 * The room of one tool call: found, ready for what the tool does, and given back when the call ends. Reading needs the projection,
 * which a room that is open has. Editing and running need the document: it is on its way when a notebook is connected, and there
 * soon; a call waits for it a while and is then refused with a code that says that it may be tried again.
 */
import { RoomdError } from '../../../protocol/errors.ts'
import { unlessAborted } from '../../sdk/unless-aborted.ts'
import type { Doing } from '../activities.ts'
import { text } from '../results/content.ts'
import type { Lease } from '../sessions/guests.ts'
import type { ToolContext, ToolResult } from './tool.ts'

/** Milliseconds a call waits for the document. */
const PATIENCE = 10_000

/** A room while a call works in it. */
export interface Work extends Lease {
  /** Tells the other peers what the call is at, until it says something else or ends. For calls that edit or run. */
  readonly show: (doing: Doing) => void
}

/** `notebook`: as the argument of that name. Rejects as `use` does, with `notebook_not_ready`, or with why there is no such room. */
export async function withRoom<T>(
  context: ToolContext,
  notebook: string | undefined,
  gate: 'read' | 'edit',
  use: (work: Work) => Promise<T>,
): Promise<T> {
  const lease = await context.sessions.use(notebook, context.signal)
  const activity = context.activities.begin(lease.room)
  const notices: string[] = []
  const stopListening = lease.room.on('notice', (notice) => notices.push(notice.text))
  context.record?.used(lease.room, lease.client)
  try {
    if (gate === 'edit') await documentReady(context, lease)
    // Cancelled meanwhile: nothing was begun.
    throwIfCancelled(context)
    const result = await use({ ...lease, show: (doing) => activity.show(doing) })
    return withNotices(result, notices)
  } catch (error) {
    throw error instanceof RoomdError ? context.sessions.explained(error, lease.room) : error
  } finally {
    stopListening()
    activity.end()
    lease.release()
  }
}

/** What the daemon said of the room while the call went on (its kernel is a fresh one, and why) belongs into the call's result. */
function withNotices<T>(result: T, notices: readonly string[]): T {
  if (notices.length === 0 || !isResult(result)) return result
  return { ...result, content: [...result.content, ...notices.map((notice) => text(`Notice: ${notice}.`))] }
}

function isResult(value: unknown): value is ToolResult {
  return typeof value === 'object' && value !== null && 'structured' in value && 'content' in value
}

/** Before a step that cannot be taken back: a call that was cancelled takes no more of them. */
export function throwIfCancelled({ signal }: ToolContext): void {
  if (signal.aborted) throw new RoomdError('client_aborted', 'the call was cancelled by its caller')
}

async function documentReady({ clock, signal }: ToolContext, { room }: Lease): Promise<void> {
  const ready = (): boolean => {
    const { document, projection } = room.state.readiness
    // Degraded does not become interactive by itself: the daemon refuses with the reason.
    return document === 'interactive' || projection === 'degraded' || room.state.attachment !== 'attached'
  }
  if (ready()) return
  let stop = (): void => {}
  const waited = new Promise<void>((resolve, reject) => {
    const stopTimer = clock.after(PATIENCE, () =>
      reject(
        new RoomdError(
          'notebook_not_ready',
          `the document is still ${room.state.readiness.document}; its cells can be read already, changing them has to wait`,
          { cause: { readiness: room.state.readiness } },
        ),
      ),
    )
    const stopChange = room.state.on('change', () => {
      if (ready()) resolve()
    })
    stop = () => {
      stopTimer()
      stopChange()
    }
  })
  try {
    await unlessAborted(waited, signal, 'waiting for the document')
  } finally {
    stop()
  }
}
