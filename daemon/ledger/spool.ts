/**
 * Events of hooks that came while no daemon answered: one file each, named so that they sort by time. Taken up in that order, removed
 * once they are stored; what cannot be read is set aside and told, and holds nothing up.
 */
import { type FSWatcher, mkdirSync, watch } from 'node:fs'
import { readdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { parseOutside, RoomdError } from '../../protocol/errors.ts'
import { ledgerMethods } from '../../protocol/ledger.ts'
import type { LedgerParams } from './call.ts'

export interface SpoolOptions {
  readonly folder: string
  readonly log: Logger
  /** Stores one event. Rejects when it could not be stored: the file stays, and so do all behind it. */
  readonly take: (event: LedgerParams<'session_hook'>) => Promise<unknown>
}

/** Files that are set aside are not tried again. */
const ASIDE = '.unreadable'

export class Spool {
  readonly #options: SpoolOptions
  readonly #watcher: FSWatcher
  #under: Promise<void> | null = null
  #again = false
  #ended = false

  /** Makes the folder. */
  constructor(options: SpoolOptions) {
    this.#options = options
    mkdirSync(options.folder, { recursive: true, mode: 0o700 })
    this.#watcher = watch(options.folder, { persistent: false }, () => this.#lookAgain())
    // The folder went away under us: events are taken up at the next hook or start.
    this.#watcher.on('error', (error) =>
      options.log.warn({ err: error }, 'the spool is not watched any more'),
    )
  }

  /** Takes up what is there now. Never rejects: what could not be stored stays for the next time. */
  drain(): Promise<void> {
    this.#under ??= this.#drain().finally(() => {
      this.#under = null
      if (this.#again) this.#lookAgain()
    })
    return this.#under
  }

  async dispose(): Promise<void> {
    this.#ended = true
    this.#watcher.close()
    await this.#under
  }

  #lookAgain(): void {
    this.#again = this.#under !== null
    if (!this.#again && !this.#ended) void this.drain()
  }

  async #drain(): Promise<void> {
    const { folder, log, take } = this.#options
    try {
      const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort()
      for (const name of names) {
        if (this.#ended) return
        const file = join(folder, name)
        const event = await readEvent(file)
        if (event === 'gone') continue
        if (event instanceof RoomdError) {
          await rename(file, `${file}${ASIDE}`)
          log.error({ file, reason: event.message }, 'a spooled hook event cannot be read; set aside')
          continue
        }
        await take(event)
        await rm(file, { force: true })
      }
    } catch (error) {
      log.warn({ err: error }, 'spooled hook events were not taken up; they are tried again')
    }
  }
}

async function readEvent(file: string): Promise<LedgerParams<'session_hook'> | RoomdError | 'gone'> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    // Another drain of the same folder was faster.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'gone'
    throw error
  }
  try {
    return parseOutside(ledgerMethods.session_hook.params, JSON.parse(text), 'a spooled event')
  } catch (error) {
    if (error instanceof RoomdError) return error
    return new RoomdError('invalid_argument', `it is not JSON: ${(error as Error).message}`)
  }
}
