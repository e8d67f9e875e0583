/**
 * The state-comparing sweep: every five minutes what should be is held against what the operating system says. Edges are told at once
 * by kernel hosts; this finds what no edge told. Unknown is not dead. One project's failure does not end the pass.
 */

import { existsSync } from 'node:fs'
import { messageOf } from '../../protocol/errors.ts'
import type { ProjectsContext } from './context.ts'
import type { Gates } from './gates.ts'
import type { Pool } from './pool.ts'
import type { Project } from './project.ts'
import { endKernel } from './rooms-of-project.ts'
import type { Tier, TierRoom } from './tier.ts'

export const SWEEP_MS = 5 * 60_000
/** A room this young may legitimately still be booting. */
export const YOUNG_MS = 5 * 60_000

export interface SweepParts {
  readonly context: ProjectsContext
  readonly tier: Tier
  readonly gates: Gates
  pools(): readonly { readonly project: Project; readonly pool: Pool }[]
}

export async function sweepPools({ context, tier, gates, pools }: SweepParts): Promise<void> {
  // At the memory line nothing is repaired, and nothing is made.
  if (gates.full()) return
  for (const { project, pool } of pools()) {
    // What is being made is never judged.
    if (project.record.status !== 'ready' || pool.warming) continue
    try {
      for (const each of pool.rooms) await sweepRoom(context, tier, pool, each)
      pool.ensure()
    } catch (error) {
      context.log.warn(
        { project: project.record.name, reason: messageOf(error) },
        'the pool could not be looked at',
      )
    }
  }
}

async function sweepRoom(context: ProjectsContext, tier: Tier, pool: Pool, each: TierRoom): Promise<void> {
  const { room, workspace } = each
  if (room.record.state !== 'pooled' || each.leaving) return
  if (context.clock.now() - room.record.created_at < YOUNG_MS) return
  if (!existsSync(workspace.folder) || room.closed) {
    pool.forget(each)
    await tier.discard(each, 'its workspace is gone')
    return
  }
  const standby = await context.steps.wait('sweep: look', async () => each.standby)
  if (standby !== 'missing') return
  // A claim may have come while we looked.
  if (room.record.state !== 'pooled' || each.leaving) return
  if (room.presentKernel) {
    context.log.warn({ room: room.id }, 'a standby has died without a word: started again')
    await endKernel(room, 'it had died')
  }
  if (room.record.state !== 'pooled' || each.leaving) return
  await pool.boot(each)
}
