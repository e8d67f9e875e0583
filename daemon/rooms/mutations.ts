/**
 * At most once, per client instance. A mutation's result is stored in the transaction of its effect; the same id sent again,
 * on whatever connection and after whatever restart, is answered from here. Effects that are no transaction (an interrupt, a
 * save) are marked as begun first, so that a repetition after a crash knows that they may have happened.
 */

import type { Clock } from '../../protocol/clock.ts'
import { decode, encode } from '../../protocol/codec.ts'
import { RoomdError, toWireError, WireError } from '../../protocol/errors.ts'
import type { ClientInstance, MutationId, NotebookId } from '../../protocol/ids.ts'
import type { Statement, Store } from '../store/store.ts'

/** Settled results are forgotten this many at a time: one statement more in one of so many units. */
const FORGET_AT_ONCE = 64
/** Results are kept this long at most. */
export const KEPT_RESULTS_MS = 24 * 3_600_000

/** One mutation being carried out. */
export interface Mutation {
  readonly clientInstance: ClientInstance
  readonly id: MutationId
  readonly method: string
  readonly notebookId: NotebookId | null
  /** When an earlier process began it without leaving a result: epoch ms. It may have happened. */
  readonly begunAt: number | null
}

type Known =
  | { readonly kind: 'result'; readonly value: unknown }
  | { readonly kind: 'error'; readonly error: RoomdError }
  | { readonly kind: 'begun'; readonly at: number }
  | { readonly kind: 'new' }

interface Instance {
  generation: number
  watermark: number
  /** The watermark that the store has, and up to which results are forgotten there. */
  storedWatermark: number
  /** No greater id was ever seen. */
  newest: number
}

interface StoredResult {
  ok: boolean
  value?: unknown
  /** Of mutations that came together, in the order of their ids. */
  values?: unknown[]
  error?: unknown
}

/** What a mutation is answered with. */
export interface MutationResult {
  readonly mutation: Mutation
  readonly value: unknown
}

export class Mutations {
  readonly #store: Store
  readonly #clock: Clock
  readonly #instances = new Map<ClientInstance, Instance>()
  readonly #inFlight = new Map<string, Promise<unknown>>()

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** For WELCOME: what a new process of this client instance counts on from. */
  instance(clientInstance: ClientInstance): { activation_generation: number; mutation_id: number } {
    const instance = this.#instance(clientInstance)
    return { activation_generation: instance.generation, mutation_id: instance.newest }
  }

  /** Takes the next activation generation, or throws `session_superseded` when a newer one is known. */
  async activate(clientInstance: ClientInstance, generation: number): Promise<void> {
    this.checkGeneration(clientInstance, generation)
    const instance = this.#instance(clientInstance)
    if (generation === instance.generation) return
    instance.generation = generation
    await this.#store.write([
      {
        sql: `INSERT INTO instances (client_instance, activation_generation, seen_at) VALUES (?, ?, ?)
              ON CONFLICT (client_instance) DO UPDATE SET
                activation_generation = max(activation_generation, excluded.activation_generation),
                seen_at = excluded.seen_at`,
        values: [clientInstance, generation, this.#clock.now()],
      },
    ])
  }

  checkGeneration(clientInstance: ClientInstance, generation: number): void {
    const { generation: newest } = this.#instance(clientInstance)
    if (generation >= newest) return
    throw new RoomdError(
      'session_superseded',
      `activation ${generation} is older than ${newest}: a later connect or disconnect of this client won`,
    )
  }

  /**
   * Runs `effect` at most once for this id: a repetition waits for the running one, or gets the stored result.
   * `outcome_unknown` for ids that were settled and forgotten.
   */
  async run(
    key: { clientInstance: ClientInstance; id: MutationId; watermark?: number | undefined },
    method: string,
    notebookId: NotebookId | null,
    effect: (mutation: Mutation) => Promise<unknown>,
  ): Promise<unknown> {
    const { clientInstance, id } = key
    const instance = this.#instance(clientInstance)
    if (key.watermark !== undefined) instance.watermark = Math.max(instance.watermark, key.watermark)
    const name = `${clientInstance}/${id}`
    const running = this.#inFlight.get(name)
    if (running) return running
    const known = this.#known(clientInstance, id, method, instance)
    if (known.kind === 'result') return known.value
    if (known.kind === 'error') throw known.error
    instance.newest = Math.max(instance.newest, id)
    const flight = effect({
      clientInstance,
      id,
      method,
      notebookId,
      begunAt: known.kind === 'begun' ? known.at : null,
    })
    this.#inFlight.set(name, flight)
    const over = (): boolean => this.#inFlight.delete(name)
    flight.then(over, over)
    return flight
  }

  /** Rows that store a result; they belong into the unit of the effect. */
  resultRows(mutation: Mutation, value: unknown): Statement[] {
    return this.#rows(mutation, encode({ ok: true, value }))
  }

  /** The same for mutations that have one effect together. Those of one client whose ids follow on share a row. */
  resultRowsOf(results: readonly MutationResult[]): Statement[] {
    const [only] = results
    if (only && results.length === 1) return this.resultRows(only.mutation, only.value)
    const rows: Statement[] = []
    const clients = new Set<ClientInstance>()
    for (const run of runsOf(results)) {
      const [first] = run
      if (!first) continue
      const { mutation, value } = first
      clients.add(mutation.clientInstance)
      if (run.length === 1) rows.push(this.#row(mutation, null, encode({ ok: true, value })))
      else {
        const values = run.map((result) => result.value)
        rows.push(this.#row(mutation, mutation.id + run.length - 1, encode({ ok: true, values })))
      }
    }
    for (const client of clients) rows.push(...this.forgettingRows(client))
    return rows
  }

  /** Marks a mutation as begun, durably, before an effect that is no transaction. */
  async begin(mutation: Mutation): Promise<void> {
    if (mutation.begunAt !== null) return
    await this.#store.write(this.#rows(mutation, null))
  }

  /** Stores how a begun mutation ended. A failure to store is the caller's: the effect itself stands. */
  async finish(mutation: Mutation, outcome: { value: unknown } | { error: unknown }): Promise<void> {
    const result =
      'value' in outcome
        ? { ok: true, value: outcome.value }
        : { ok: false, error: toWireError(outcome.error) }
    await this.#store.write(this.#rows(mutation, encode(result)))
  }

  /** Rows that forget results older than 24 h; ids below the raised watermark answer `outcome_unknown`. */
  async forgetOld(): Promise<void> {
    const before = this.#clock.now() - KEPT_RESULTS_MS
    await this.#store.write([
      {
        sql: `INSERT INTO instances (client_instance, watermark, seen_at)
              SELECT client_instance, max(coalesce(last_id, mutation_id)) + 1, max(at)
              FROM mutations WHERE at < ? GROUP BY client_instance
              ON CONFLICT (client_instance) DO UPDATE SET watermark = max(watermark, excluded.watermark)`,
        values: [before],
      },
      { sql: 'DELETE FROM mutations WHERE at < ?', values: [before] },
    ])
    this.#instances.clear()
  }

  #known(clientInstance: ClientInstance, id: MutationId, method: string, instance: Instance): Known {
    if (id < instance.watermark) {
      throw new RoomdError(
        'outcome_unknown',
        `mutation ${id} was settled and its result forgotten; it is not run again`,
      )
    }
    // Every id that has a row came through here, or was there when the instance was read.
    if (id > instance.newest) return { kind: 'new' }
    const row = this.#store.get<{
      first: number
      last: number
      method: string
      result: Uint8Array | null
      at: number
    }>(
      `SELECT mutation_id AS first, coalesce(last_id, mutation_id) AS last, method, result, at FROM mutations
       WHERE client_instance = ? AND mutation_id <= ? ORDER BY mutation_id DESC LIMIT 1`,
      clientInstance,
      id,
    )
    if (!row || row.last < id) return { kind: 'new' }
    if (row.method !== method) {
      throw new RoomdError(
        'conflict',
        `mutation ${id} was used for ${row.method}; use a new id for ${method}`,
      )
    }
    if (row.result === null) return { kind: 'begun', at: row.at }
    const stored = decode(row.result) as StoredResult
    return stored.ok
      ? { kind: 'result', value: stored.values ? stored.values[id - row.first] : stored.value }
      : { kind: 'error', error: RoomdError.fromWire(WireError.parse(stored.error)) }
  }

  #rows(mutation: Mutation, result: Uint8Array | null): Statement[] {
    return [this.#row(mutation, null, result), ...this.forgettingRows(mutation.clientInstance)]
  }

  #row(
    { clientInstance, id, method, notebookId }: Mutation,
    last: number | null,
    result: Uint8Array | null,
  ): Statement {
    return {
      sql: `INSERT INTO mutations (client_instance, mutation_id, last_id, method, notebook_id, result, at)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (client_instance, mutation_id) DO UPDATE SET result = excluded.result`,
      values: [clientInstance, id, last, method, notebookId, result, this.#clock.now()],
    }
  }

  /** Rows that forget what the client has settled: none until it is worth it. They belong into the unit of some effect. */
  forgettingRows(clientInstance: ClientInstance): Statement[] {
    const instance = this.#instance(clientInstance)
    if (instance.watermark - instance.storedWatermark < FORGET_AT_ONCE) return []
    // If this unit fails, the store forgets them with a later one.
    instance.storedWatermark = instance.watermark
    return [
      {
        sql: `INSERT INTO instances (client_instance, watermark, seen_at) VALUES (?, ?, ?)
              ON CONFLICT (client_instance) DO UPDATE SET
                watermark = max(watermark, excluded.watermark), seen_at = excluded.seen_at`,
        values: [clientInstance, instance.watermark, this.#clock.now()],
      },
      {
        sql: `DELETE FROM mutations
              WHERE client_instance = ? AND mutation_id < ? AND coalesce(last_id, mutation_id) < ?`,
        values: [clientInstance, instance.watermark, instance.watermark],
      },
    ]
  }

  #instance(clientInstance: ClientInstance): Instance {
    const known = this.#instances.get(clientInstance)
    if (known) return known
    const row = this.#store.get<{ activation_generation: number; watermark: number }>(
      'SELECT activation_generation, watermark FROM instances WHERE client_instance = ?',
      clientInstance,
    )
    const newest = this.#store.get<{ newest: number }>(
      `SELECT coalesce(last_id, mutation_id) AS newest FROM mutations
       WHERE client_instance = ? ORDER BY mutation_id DESC LIMIT 1`,
      clientInstance,
    )
    const watermark = row?.watermark ?? 0
    const instance: Instance = {
      generation: row?.activation_generation ?? 0,
      watermark,
      storedWatermark: watermark,
      newest: Math.max(watermark, newest?.newest ?? 0),
    }
    this.#instances.set(clientInstance, instance)
    return instance
  }
}

/** Results whose mutations are of one client, method and room, and have ids that follow on. Ids are not repeated. */
function runsOf(results: readonly MutationResult[]): MutationResult[][] {
  const sorted = [...results].sort(
    (a, b) => compare(a.mutation.clientInstance, b.mutation.clientInstance) || a.mutation.id - b.mutation.id,
  )
  const runs: MutationResult[][] = []
  let before: Mutation | null = null
  for (const result of sorted) {
    const { mutation } = result
    if (before && follows(before, mutation)) runs.at(-1)?.push(result)
    else runs.push([result])
    before = mutation
  }
  return runs
}

/** One that was begun has a row of its own already. */
function follows(a: Mutation, b: Mutation): boolean {
  return (
    a.id + 1 === b.id &&
    a.clientInstance === b.clientInstance &&
    a.method === b.method &&
    a.notebookId === b.notebookId &&
    a.begunAt === null &&
    b.begunAt === null
  )
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
