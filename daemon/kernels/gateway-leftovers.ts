/**
 * Kernels at gateways that are over for us: each is asked after, and ended if the gateway still has it. A host that was killed, or
 * that could not reach its gateway when the end was wanted, would otherwise leave a kernel there that costs somebody money.
 *
 * `<state>/gateway-leftovers.json` remembers them over a daemon's death. Given up after a day: by then it is the gateway's to cull.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import type { Clock } from '../../protocol/clock.ts'
import { lazily } from '../../protocol/lazily.ts'
import type { Places } from '../../protocol/places.ts'
import { replaceFile } from '../../protocol/small-files.ts'
import { GatewayApi } from '../kernel-host/remote/gateway-api.ts'

const Leftover = lazily(() =>
  z.object({
    gateway: z.string(),
    url: z.string(),
    token_env: z.string().nullable(),
    kernel_id: z.string(),
    since: z.number(),
  }),
)
export type Leftover = z.output<typeof Leftover>

const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 5 * 60_000
const GIVE_UP_MS = 24 * 60 * 60_000

export interface LeftoversPort {
  readonly places: Places
  readonly clock: Clock
  token(tokenEnv: string | null): Promise<string | null>
  log(message: string): void
}

export class GatewayLeftovers {
  readonly #port: LeftoversPort
  readonly #file: string
  readonly #open = new Map<string, Leftover>()
  #disposed = false

  constructor(port: LeftoversPort) {
    this.#port = port
    this.#file = join(port.places.state, 'gateway-leftovers.json')
  }

  /** Goes on with what an earlier daemon did not come to. */
  resume(): void {
    for (const leftover of this.#read()) this.#take(leftover)
  }

  add(leftover: Leftover): void {
    this.#take(leftover)
    this.#write()
  }

  dispose(): void {
    this.#disposed = true
  }

  #take(leftover: Leftover): void {
    if (this.#open.has(leftover.kernel_id)) return
    this.#open.set(leftover.kernel_id, leftover)
    void this.#end(leftover, FIRST_WAIT_MS)
  }

  async #end(leftover: Leftover, wait: number): Promise<void> {
    const { gateway: name, url, token_env: tokenEnv, kernel_id: id, since } = leftover
    const { clock, token, log } = this.#port
    try {
      const api = new GatewayApi({ name, url, tokenEnv, token: await token(tokenEnv) })
      if ((await api.kernel(id)) !== null) {
        await api.end(id)
        log(`kernel ${id} was still at the gateway "${name}" and was ended`)
      }
    } catch (error) {
      if (this.#disposed) return
      const reason = error instanceof Error ? error.message : String(error)
      if (clock.now() - since < GIVE_UP_MS) {
        if (wait === FIRST_WAIT_MS)
          log(`kernel ${id} may still be at the gateway "${name}" and could not be ended yet: ${reason}`)
        clock.after(wait, () => {
          if (!this.#disposed) void this.#end(leftover, Math.min(wait * 2, LONGEST_WAIT_MS))
        })
        return
      }
      log(`kernel ${id} may still be at the gateway "${name}"; given up after a day: ${reason}`)
    }
    this.#open.delete(id)
    if (!this.#disposed) this.#write()
  }

  #read(): Leftover[] {
    try {
      return z.array(Leftover).parse(JSON.parse(readFileSync(this.#file, 'utf8')))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
        this.#port.log(`${this.#file} cannot be read and is left out: ${String(error)}`)
      return []
    }
  }

  #write(): void {
    try {
      if (this.#open.size === 0) rmSync(this.#file, { force: true })
      else replaceFile(this.#file, JSON.stringify([...this.#open.values()]), { outlives: 'process' })
    } catch (error) {
      this.#port.log(`${this.#file} could not be written: ${String(error)}`)
    }
  }
}
