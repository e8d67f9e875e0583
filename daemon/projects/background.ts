/** Work that nobody waits for: its failure is logged, and what it was about goes on. */
import { messageOf } from '../../protocol/errors.ts'
import type { ProjectsContext } from './context.ts'

/** `what` is said when it fails, as in "<what> failed". Never rejects. */
export async function inBackground(
  { log, ended }: Pick<ProjectsContext, 'log' | 'ended'>,
  what: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!ended()) log.warn({ reason: messageOf(error) }, `${what} failed`)
  }
}
