/**
 * Which daemon of this user writes which file. Two homes are two daemons that know nothing of each other; a claim beside the user's
 * runtime folder keeps them off one file. It names the file, the home, and the process by pid and start time.
 *
 * A claim holds while its process lives and refreshes it. A dead one's, and one not refreshed for LAPSED_MS, are taken over; a claim
 * of the same home always is, since a home has one daemon. Claims only keep daemons apart: that a file is never written over
 * unseen is the business of saving, which compares bytes.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, rmdir, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { Clock } from '../../protocol/clock.ts'
import { lazily } from '../../protocol/lazily.ts'
import { identify, isAlive, machineBoot } from '../kernel-host/process-identity.ts'

export const REFRESH_MS = 60_000
export const LAPSED_MS = 10 * 60_000
/** Taking a claim is a few system calls; who holds its lock for longer has died. */
const LOCK_MS = 5_000
const LOCK_TRIES = 50

const Claim = lazily(() =>
  z.object({
    path: z.string(),
    home: z.string(),
    boot_id: z.string(),
    machine_boot: z.string(),
    pid: z.number().int(),
    started: z.number().nullable(),
  }),
)
/** What a claim says of its holder. */
export type Claim = z.output<typeof Claim>

export interface FileClaimsOptions {
  /** Beside the user's runtime folder: the same for all homes of a user. */
  readonly folder: string
  readonly home: string
  readonly bootId: string
  readonly clock: Clock
  readonly log: Logger
}

export class FileClaims {
  readonly #options: FileClaimsOptions
  readonly #held = new Set<string>()
  readonly #self: Omit<Claim, 'path'>
  #ready: Promise<boolean> | null = null
  #cancelRefresh: (() => void) | null = null
  #disposed = false

  constructor(options: FileClaimsOptions) {
    this.#options = options
    const { home, bootId } = options
    this.#self = { home, boot_id: bootId, machine_boot: machineBoot(), ...identify(process.pid) }
  }

  /** Takes or keeps the claim on a file (canonical path). Returns who else has it, or null: it is ours. */
  async take(path: string): Promise<Claim | null> {
    if (!(await this.#prepared()) || this.#disposed) return null
    const file = this.#fileOf(path)
    const unlock = await this.#lock(file)
    try {
      const other = await this.#holder(file)
      if (other) return other
      await this.#write(file, path)
    } catch (error) {
      // Without a claim nothing is lost: saving compares bytes before it writes.
      this.#options.log.warn({ path, error: String(error) }, 'the file could not be claimed')
      return null
    } finally {
      await unlock()
    }
    this.#held.add(path)
    this.#scheduleRefresh()
    return null
  }

  /** Lets another daemon have the file. Only a claim that is still ours is removed. */
  async release(path: string): Promise<void> {
    if (!this.#held.delete(path)) return
    const file = this.#fileOf(path)
    const claim = await readClaim(file)
    if (claim?.boot_id === this.#self.boot_id) await rm(file, { force: true })
  }

  async dispose(): Promise<void> {
    this.#disposed = true
    this.#cancelRefresh?.()
    await Promise.all([...this.#held].map((path) => this.release(path)))
  }

  #fileOf(path: string): string {
    const name = createHash('sha256').update(path).digest('hex').slice(0, 32)
    return join(this.#options.folder, `${name}.json`)
  }

  #prepared(): Promise<boolean> {
    this.#ready ??= this.#prepare()
    return this.#ready
  }

  async #prepare(): Promise<boolean> {
    const { folder, log } = this.#options
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const { uid, mode } = await stat(folder)
      if (process.getuid && (uid !== process.getuid() || (mode & 0o022) !== 0))
        throw new Error('others can write to it')
      for (const name of await readdir(folder)) {
        if (!name.endsWith('.json')) continue
        const claim = await readClaim(join(folder, name))
        if (claim === null || !this.#lives(claim)) await rm(join(folder, name), { force: true })
      }
      return true
    } catch (error) {
      log.warn(
        { folder, error: String(error) },
        'files are not claimed: the folder for claims cannot be used',
      )
      return false
    }
  }

  /** Another home's living claim. */
  async #holder(file: string): Promise<Claim | null> {
    const claim = await readClaim(file)
    if (claim === null || claim.home === this.#self.home || !this.#lives(claim)) return null
    const { mtimeMs } = await stat(file)
    return Date.now() - mtimeMs > LAPSED_MS ? null : claim
  }

  #lives({ machine_boot, pid, started }: Claim): boolean {
    return machine_boot === this.#self.machine_boot && isAlive({ pid, started })
  }

  async #write(file: string, path: string): Promise<void> {
    const claim: Claim = { path, ...this.#self }
    const temporary = `${file}.${randomBytes(4).toString('hex')}.tmp`
    await writeFile(temporary, `${JSON.stringify(claim)}\n`, { mode: 0o600 })
    await rename(temporary, file)
  }

  /** A folder is made by one process only. Rejects never; a lock that cannot be had is done without. */
  async #lock(file: string): Promise<() => Promise<void>> {
    const lock = `${file}.lock`
    for (let tries = 0; tries < LOCK_TRIES; tries++) {
      try {
        await mkdir(lock)
        return async () => {
          await rmdir(lock).catch(() => {}) // taken from us as too old
        }
      } catch {
        const made = await stat(lock).catch(() => null)
        if (made && Date.now() - made.mtimeMs > LOCK_MS) await rmdir(lock).catch(() => {})
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
    this.#options.log.warn({ lock }, 'the lock of a claim is held for long; going on without')
    return () => Promise.resolve()
  }

  #scheduleRefresh(): void {
    if (this.#cancelRefresh || this.#disposed) return
    this.#cancelRefresh = this.#options.clock.after(REFRESH_MS, async () => {
      this.#cancelRefresh = null
      const now = new Date()
      for (const path of this.#held) await utimes(this.#fileOf(path), now, now).catch(() => {}) // swept away: taken anew with the next look
      if (this.#held.size > 0) this.#scheduleRefresh()
    })
  }
}

async function readClaim(file: string): Promise<Claim | null> {
  try {
    return Claim.parse(JSON.parse(await readFile(file, 'utf8')))
  } catch {
    // None, or none that can be believed.
    return null
  }
}
