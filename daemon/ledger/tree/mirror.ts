/**
 * Keeps a tree current for programs that read files (`ledger.mirror`): everything at the start, then what changed, a moment after it
 * changed and together. Writing takes a tenth of the time at most: a large tree, which takes long, is written less often. A tree that
 * cannot be written is told in the log and tried again with the next change.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../../protocol/clock.ts'
import type { TreeThread } from './tree-thread.ts'
import type { TreeOptions } from './write-tree.ts'

/** Milliseconds in which changes are gathered. */
const GATHER_MS = 300
/** A pause is at least so many times as long as the last writing took. */
const REST = 9

export interface MirrorOptions {
  readonly dir: string
  readonly tree: TreeThread
  readonly options: TreeOptions
  readonly clock: Clock
  readonly log: Logger
}

export class Mirror {
  readonly #options: MirrorOptions
  /** Everything is to be written, as at the start. */
  #all = true
  #changed = new Set<string>()
  /** What a failed writing was for; with `#all` too, because what is gone is in no table any more. */
  #missed: ReadonlySet<string> = new Set()
  #tookMs = 0
  #under: Promise<void> | null = null
  #cancel: (() => void) | null = null
  #ended = false

  constructor(options: MirrorOptions) {
    this.#options = options
    this.#soon()
  }

  changed(names: readonly string[]): void {
    if (names.length === 0) return
    for (const name of names) this.#changed.add(name)
    this.#soon()
  }

  /** Writes what is to be written, then nothing more. */
  async dispose(): Promise<void> {
    this.#ended = true
    this.#cancel?.()
    await this.#under
    if (this.#all || this.#changed.size > 0) await this.#write()
  }

  #soon(): void {
    if (this.#cancel || this.#under || this.#ended) return
    this.#cancel = this.#options.clock.after(Math.max(GATHER_MS, REST * this.#tookMs), () => {
      this.#cancel = null
      this.#under = this.#write().finally(() => {
        this.#under = null
        if (this.#changed.size > 0) this.#soon()
      })
    })
  }

  async #write(): Promise<void> {
    const { dir, tree, options, clock, log } = this.#options
    const all = this.#all
    const names = new Set([...this.#missed, ...this.#changed])
    this.#all = false
    this.#changed = new Set()
    this.#missed = new Set()
    const begun = clock.now()
    try {
      await tree.mirror(dir, options, { all, names: [...names] })
      this.#tookMs = clock.now() - begun
    } catch (error) {
      log.warn({ err: error, dir }, 'the mirror could not be written; it is tried again with the next change')
      this.#all = true
      this.#missed = names
    }
  }
}
