/**
 * What must hold before a kernel is started that nobody asked for, in this order: the breaker of its project is not tripped; memory has
 * room for its expected size; the project is trusted; the room is still wanted, asked again immediately before the start.
 */
import type { ProjectsContext } from './context.ts'
import { Line } from './line.ts'
import type { Project } from './project.ts'
import type { TierRoom } from './tier.ts'

/** Kernels that start ahead of need at the same time: those that somebody waits for come first on the machine. */
const AT_ONCE = 2

/** What gates know of memory. */
export interface Headroom {
  /** At or over the line: nothing is started ahead of need. */
  full(): boolean
  /** Whether another standby of this kind fits under the line. No measurement: yes. */
  fits(kind: string): boolean
}

export class Gates {
  readonly #context: ProjectsContext
  readonly #headroom: Headroom
  readonly #line = new Line({ concurrency: AT_ONCE })

  constructor(context: ProjectsContext, headroom: Headroom) {
    this.#context = context
    this.#headroom = headroom
  }

  full(): boolean {
    return this.#headroom.full()
  }

  /** Why no standby of the project would be started; null: one would. */
  whyClosed(project: Project): string | null {
    if (project.breaker.tripped)
      return `its standbys were killed for want of memory three times in 5 minutes; "roomd project trust ${project.record.id.slice(0, 8)}" lets it try again`
    if (!this.#headroom.fits(project.record.id)) return 'there is not enough memory for another standby'
    if (!project.record.trusted) return 'not trusted: rooms wait without a kernel'
    return null
  }

  /** Starts the room's kernel and waits until it is ready. Returns which gate was closed; null: it started. */
  boot(project: Project, tier: TierRoom): Promise<string | null> {
    return this.#line.run(async () => {
      const closed = this.whyClosed(project)
      if (closed !== null) return closed
      if (!isWanted(tier)) return 'the room is not wanted any more'
      await this.#context.steps.wait('boot', () => tier.room.slot.want())
      return null
    })
  }

  /** As `boot`, for a room of no project. */
  bootGeneric(kind: string, tier: TierRoom): Promise<string | null> {
    return this.#line.run(async () => {
      if (!this.#headroom.fits(kind)) return 'there is not enough memory for another standby'
      if (!isWanted(tier)) return 'the room is not wanted any more'
      await this.#context.steps.wait('boot', () => tier.room.slot.want())
      return null
    })
  }
}

function isWanted(tier: TierRoom): boolean {
  return !tier.room.closed && (!tier.leaving || tier.room.record.state === 'active')
}
