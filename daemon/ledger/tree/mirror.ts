/**
 * Keeps a tree current for programs that read files (`ledger.mirror`): everything at the start, then what changed, a moment after it
 * changed and together. A tree that cannot be written is told in the log and tried again with the next change.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../../protocol/clock.ts'
import type { TreeThread } from './tree-thread.ts'
import type { TreeOptions } from './write-tree.ts'

/** Milliseconds in which changes are gathered. */
const GATHER_MS = 300

export interface MirrorOptions {
  readonly dir: string
  readonly tree: TreeThread
  readonly options: TreeOptions
  readonly clock: Clock
  readonly log: Logger
}

export class Mirror {
  readonly #options: MirrorOptions
  /** null: everything. */
  #changed: Set<string> | null = null
  #under: Promise<void> | null = null
  #cancel: (() => void) | null = null
  #ended = false

  constructor(options: MirrorOptions) {
    this.#options = options
    this.#soon()
  }

  changed(names: readonly string[]): void {
    if (names.length === 0) return
    for (const name of names) this.#changed?.add(name)
    this.#soon()
  }

  /** Writes what is to be written, then nothing more. */
  async dispose(): Promise<void> {
    this.#ended = true
    this.#cancel?.()
    await this.#under
    if (this.#changed === null || this.#changed.size > 0) await this.#write()
  }

  #soon(): void {
    if (this.#cancel || this.#under || this.#ended) return
    this.#cancel = this.#options.clock.after(GATHER_MS, () => {
      this.#cancel = null
      this.#under = this.#write().finally(() => {
        this.#under = null
        if (this.#changed !== null && this.#changed.size > 0) this.#soon()
      })
    })
  }

  async #write(): Promise<void> {
    const { dir, tree, options, log } = this.#options
    const names = this.#changed
    this.#changed = new Set()
    try {
      await tree.mirror(dir, options, names === null ? null : [...names])
    } catch (error) {
      log.warn({ err: error, dir }, 'the mirror could not be written; it is tried again with the next change')
      // Whatever was missed: all of it.
      this.#changed = null
    }
  }
}
