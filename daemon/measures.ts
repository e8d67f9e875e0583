/**
 * What the process counts about itself, for `/metrics`: plain numbers that cost next to nothing while nobody looks. One of its
 * kind in the process, like the process's own memory; it only grows, and whoever looks takes differences.
 */

/** Upper bounds in milliseconds of the buckets that latencies are counted in. */
export const LATENCY_BOUNDS_MS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] as const

/** Latencies: how many fell under each bound, and their sum. */
export class Latencies {
  /** One more than the bounds: the last counts what is over all of them. */
  readonly counts: number[] = new Array(LATENCY_BOUNDS_MS.length + 1).fill(0)
  count = 0
  sumMs = 0

  observe(ms: number): void {
    this.count++
    this.sumMs += ms
    let at = 0
    while (at < LATENCY_BOUNDS_MS.length && ms > (LATENCY_BOUNDS_MS[at] ?? Infinity)) at++
    this.counts[at] = (this.counts[at] ?? 0) + 1
  }
}

/** Counts by a name from a small, fixed set (error codes, states): never by something that a client chooses. */
export class Tally {
  readonly values = new Map<string, number>()

  add(name: string, amount = 1): void {
    this.values.set(name, (this.values.get(name) ?? 0) + amount)
  }
}

export const measures = {
  /** From handing units to the store until they are committed; units of one turn are one commit and count once. */
  commits: new Latencies(),
  /** Units that could not be committed. */
  failedUnits: 0,
  /** Bytes of frames and of Yjs messages, by transport and direction: `unix in`, `websocket out`, … */
  bytes: new Tally(),
  /** Connections that were accepted, by transport. */
  accepted: new Tally(),
  /** Requests that were answered with an error, by its code. */
  refusedRequests: new Tally(),
  /** HTTP requests, WebSocket upgrades included, by the status of the answer (101: upgraded). */
  httpAnswers: new Tally(),
  /** Executions that ended, by terminal status. */
  finishedExecutions: new Tally(),
  /** Document updates that were committed. */
  documentUpdates: 0,
}
