/** Everything that waits, held until a test lets it go: in an order that a seed gives, or by name. */
import type { Steps } from '../../daemon/projects/steps.ts'

/** Numbers in [0, 1) that a seed gives, always the same. */
export function numbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** What waits as one daemon, until that is dead: then it never goes on, wherever in this process it was. */
export class Life implements Steps {
  readonly #scheduler: Scheduler
  #over = false

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler
  }

  get over(): boolean {
    return this.#over
  }

  end(): void {
    this.#over = true
  }

  hold(name: string): Promise<void> {
    return this.#over ? new Promise(() => {}) : this.#scheduler.hold(name)
  }

  async wait<T>(name: string, work: () => Promise<T>): Promise<T> {
    await this.hold(name)
    return work()
  }
}

/** Holds whatever waits, and lets one go at a time: by the numbers of a seed, or the first of those that are asked for. */
export class Scheduler implements Steps {
  random: () => number = Math.random
  /** How likely what is begun at the border fails. */
  failing = 0
  /** Which waits are held; the others go on at once. */
  holds: (name: string) => boolean = () => true
  readonly #held: { name: string; go: () => void }[] = []

  async wait<T>(name: string, work: () => Promise<T>): Promise<T> {
    await this.hold(name)
    return work()
  }

  hold(name: string): Promise<void> {
    if (!this.holds(name)) return Promise.resolve()
    return new Promise((go) => this.#held.push({ name, go }))
  }

  get held(): number {
    return this.#held.length
  }

  get names(): string[] {
    return this.#held.map(({ name }) => name)
  }

  /** Lets one go, as the seed says. */
  step(): void {
    this.#go(Math.floor(this.random() * this.#held.length))
  }

  /** The first that is held and is one of those asked for. */
  first(wanted: (name: string) => boolean): string | undefined {
    return this.names.find(wanted)
  }

  /** Lets the first of this name go. */
  letGo(name: string): void {
    const at = this.names.indexOf(name)
    if (at < 0) throw new Error(`${name} is not held; held: ${this.names.join(', ')}`)
    this.#go(at)
  }

  /** What is held is never let go: the process that waited is dead. */
  forget(): void {
    this.#held.length = 0
  }

  /** Holds nothing any more. */
  open(): void {
    this.holds = () => false
    while (this.#held.length > 0) this.#go(0)
  }

  #go(at: number): void {
    const [next] = this.#held.splice(at, 1)
    next?.go()
  }
}
