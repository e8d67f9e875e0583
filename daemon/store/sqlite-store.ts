/**
 * The store as the main thread has it: a read connection, and the line of units to the writer thread.
 *
 * Invariants: units are numbered in hand-over order and settled in that order; one message per turn of the loop carries all
 * units of that turn; a promise is settled once. If the writer thread itself dies, what was under way is rejected (the callers
 * read the truth back from the store) and a new thread takes over.
 */
import { statSync } from 'node:fs'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import Database from 'better-sqlite3'
import type { Logger } from 'pino'
import { RoomdError } from '../../protocol/errors.ts'
import { programFile } from '../../protocol/programs.ts'
import { measures } from '../measures.ts'
import { isDamage } from './inspect.ts'
import type { ProcedureInput, ProcedureName, ProcedureResult } from './procedures.ts'
import type { ProcedureStore, SqlValue, StoreHealth, WriteUnit } from './store.ts'
import type { FromWriter, UnitFailure, UnitResult, Work, WorkerData } from './writer-messages.ts'

/** Texts beyond this many are sent and prepared each time: they are made up as they go, such as lists of `?`. */
const MOST_STATEMENTS = 1000
/** The writer's thread starts with the first unit, or so long after opening: two threads at once would make a daemon's start longer. */
const WRITER_AFTER_MS = 100
/** Times that the writer may die in a row without having settled anything. */
const MOST_CRASHES = 3

interface Waiting {
  /** With what a procedure returned; undefined for a unit of statements. */
  readonly resolve: (value?: unknown) => void
  readonly reject: (error: RoomdError) => void
}

export class SqliteStore implements ProcedureStore {
  readonly #file: string
  readonly #log: Logger
  readonly #db: Database.Database
  readonly #reads = new Map<string, Database.Statement>()
  /** Called when the file turns out to be damaged while it is open. */
  readonly #damaged: (reason: string) => void

  readonly #writerDue: NodeJS.Timeout
  #writer: Worker | null = null
  #port: MessagePort | null = null
  #bell = new Int32Array(new SharedArrayBuffer(4))
  #crashes = 0
  readonly #statementIds = new Map<string, number>()
  #fresh: string[] = []

  /** Work of this turn that is complete; units that come after it are still in `#body`. */
  #outbox: Work[] = []
  #body: (SqlValue | true)[] = []
  #blobs: Uint8Array[] = []
  #blobBytes = 0
  /** Units in `#body`. */
  #queued = 0
  #flushing = false
  /** Callers in hand-over order; the first `#head` are settled. */
  #waiting: Waiting[] = []
  #head = 0
  /** Number of the first unit in `#waiting`. */
  #first = 0
  /** Units with numbers below it are with the writer, or settled. */
  #handedOver = 0
  /** The first unit of each commit under way, and when it was handed over. */
  readonly #flushedAt: { readonly unit: number; readonly at: number }[] = []
  #barriers: { readonly upTo: number; readonly resolve: () => void }[] = []

  #state: 'ok' | 'read_only' | 'recovered'
  #reason: string | undefined
  /** Why the last transaction could not be written as a whole; null: it was. */
  #failing: string | null = null
  readonly #incomplete: boolean
  #closing: Promise<void> | null = null
  #closed: ((error: string | undefined) => void) | null = null

  constructor(options: {
    file: string
    /** Open, set up and migrated; the store's from now on. */
    db: Database.Database
    log: Logger
    recovered: string | null
    incomplete: boolean
    damaged: (reason: string) => void
  }) {
    this.#file = options.file
    this.#log = options.log
    this.#damaged = options.damaged
    this.#state = options.recovered === null ? 'ok' : 'recovered'
    this.#reason = options.recovered ?? undefined
    this.#incomplete = options.incomplete
    this.#db = options.db
    this.#db.pragma('query_only = ON')
    this.#writerDue = setTimeout(() => this.#mustWrite(), WRITER_AFTER_MS)
    this.#writerDue.unref()
  }

  all<Row>(sql: string, ...values: SqlValue[]): Row[] {
    return this.#read(() => this.#prepared(sql).all(...values)) as Row[]
  }

  get<Row>(sql: string, ...values: SqlValue[]): Row | undefined {
    return this.#read(() => this.#prepared(sql).get(...values)) as Row | undefined
  }

  write(unit: WriteUnit, early = false): Promise<void> {
    const refused = this.#refusal()
    if (refused) return Promise.reject(refused)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve: () => resolve(), reject })
      this.#queue(unit)
      this.#flushSoon()
      if (early && this.#handedOver === this.#first + this.#head) this.#handOver()
    })
  }

  async writeShared(unit: WriteUnit, packed?: Uint8Array, lasting = true): Promise<void> {
    await this.#perform('write_shared', { unit, packed: packed ?? null }, lasting)
  }

  transact<Name extends ProcedureName>(
    name: Name,
    input: ProcedureInput<Name>,
  ): Promise<ProcedureResult<Name>> {
    return this.#perform(name, input, true)
  }

  #perform<Name extends ProcedureName>(
    name: Name,
    input: ProcedureInput<Name>,
    lasting: boolean,
  ): Promise<ProcedureResult<Name>> {
    const refused = this.#refusal()
    if (refused) return Promise.reject(refused)
    return new Promise((resolve, reject) => {
      this.#closeUnits()
      const first = this.#first + this.#waiting.length
      this.#waiting.push({ resolve: (value) => resolve(value as ProcedureResult<Name>), reject })
      this.#outbox.push({ kind: 'procedure', first, count: 1, name, input, lasting })
      this.#flushSoon()
    })
  }

  settled(): Promise<void> {
    const upTo = this.#first + this.#waiting.length
    if (upTo === this.#first + this.#head) return Promise.resolve()
    return new Promise((resolve) => this.#barriers.push({ upTo, resolve }))
  }

  health(): StoreHealth {
    const failing = this.#state === 'read_only' ? null : this.#failing
    const reason = failing ?? this.#reason
    return {
      state: failing === null ? this.#state : 'failing',
      ...(reason === undefined ? {} : { reason }),
      ...(this.#incomplete ? { incomplete: true } : {}),
      size: sizeOf(this.#file) + sizeOf(`${this.#file}-wal`),
      pending: this.#waiting.length - this.#head,
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** The file is damaged: nothing is written any more, and the next start recovers it. */
  condemn(reason: string): void {
    if (this.#state === 'read_only') return
    this.#state = 'read_only'
    this.#reason = `${this.#file} is damaged (${reason}); restart the daemon: it sets the file aside and recovers what can be read`
    this.#log.error({ file: this.#file, reason }, 'the store is damaged')
    this.#damaged(reason)
  }

  async #close(): Promise<void> {
    await this.settled()
    clearTimeout(this.#writerDue)
    const port = this.#port
    if (port !== null) {
      const error = await new Promise<string | undefined>((resolve) => {
        this.#closed = resolve
        port.postMessage({ kind: 'close' })
        this.#ring()
      })
      if (error !== undefined)
        this.#log.warn({ error }, 'the log stays beside the store: it could not be moved into it')
      await this.#writer?.terminate()
    }
    this.#db.close()
  }

  #refusal(): RoomdError | null {
    if (this.#closing)
      return new RoomdError('storage_failed', 'the store is closed: the daemon is shutting down')
    if (this.#state === 'read_only')
      return new RoomdError('storage_failed', this.#reason ?? 'the store is read-only')
    return null
  }

  #prepared(sql: string): Database.Statement {
    let statement = this.#reads.get(sql)
    if (statement === undefined) {
      if (this.#reads.size >= MOST_STATEMENTS) this.#reads.clear()
      statement = this.#db.prepare(sql)
      this.#reads.set(sql, statement)
    }
    return statement
  }

  #read<Result>(read: () => Result): Result {
    try {
      return read()
    } catch (thrown) {
      if (isDamage(thrown)) this.condemn(String(thrown))
      // Anything else is a defect of the caller (wrong SQL), or the disk: told as it is.
      if (
        thrown instanceof Database.SqliteError &&
        (isDamage(thrown) || thrown.code.startsWith('SQLITE_IOERR'))
      )
        throw new RoomdError(
          'storage_failed',
          `${this.#file} could not be read: ${thrown.message} (${thrown.code})`,
        )
      throw thrown
    }
  }

  #queue(unit: WriteUnit): void {
    this.#queued++
    this.#body.push(unit.length)
    for (const { sql, values } of unit) {
      this.#body.push(this.#statementId(sql), values.length)
      for (const value of values) {
        if (value instanceof Uint8Array) {
          this.#body.push(true, value.length)
          this.#blobs.push(value)
          this.#blobBytes += value.length
        } else this.#body.push(value)
      }
    }
  }

  #statementId(sql: string): number | string {
    const known = this.#statementIds.get(sql)
    if (known !== undefined) return known
    if (this.#statementIds.size >= MOST_STATEMENTS) return sql
    const id = this.#statementIds.size
    this.#statementIds.set(sql, id)
    this.#fresh.push(sql)
    return id
  }

  /** After everything that this turn of the loop still has to do: all of it is one commit. */
  #flushSoon(): void {
    if (this.#flushing) return
    this.#flushing = true
    this.#flushedAt.push({ unit: this.#first + this.#waiting.length - 1, at: performance.now() })
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#flushing = false
    this.#handOver()
  }

  #handOver(): void {
    this.#mustWrite()
    if (this.#port === null) return
    this.#closeUnits()
    if (this.#outbox.length === 0) return
    const outbox = this.#outbox
    this.#outbox = []
    this.#handedOver = this.#first + this.#waiting.length
    for (const work of outbox)
      this.#port.postMessage(work, work.kind === 'units' ? [work.blobs.buffer as ArrayBuffer] : [])
    this.#ring()
  }

  /** Units queued until now become one hand-over: what follows is of another kind, or the turn is over. */
  #closeUnits(): void {
    if (this.#queued === 0) return
    const blobs = new Uint8Array(this.#blobBytes)
    let at = 0
    for (const blob of this.#blobs) {
      blobs.set(blob, at)
      at += blob.length
    }
    this.#outbox.push({
      kind: 'units',
      first: this.#first + this.#waiting.length - this.#queued,
      count: this.#queued,
      body: this.#body,
      blobs,
      statements: this.#fresh,
    })
    this.#body = []
    this.#blobs = []
    this.#blobBytes = 0
    this.#queued = 0
    this.#fresh = []
  }

  #ring(): void {
    Atomics.add(this.#bell, 0, 1)
    Atomics.notify(this.#bell, 0)
  }

  /** Starts the first writer; one that died is followed by the next in its own time. */
  #mustWrite(): void {
    if (this.#writer === null) this.#startWriter()
  }

  #startWriter(): void {
    const { port1, port2 } = new MessageChannel()
    this.#bell = new Int32Array(new SharedArrayBuffer(4))
    const data: WorkerData = { role: 'writer', file: this.#file, port: port2, bell: this.#bell }
    const writer = new Worker(programFile('store-writer'), { workerData: data, transferList: [port2] })
    this.#writer = writer
    this.#port = port1
    port1.on('message', (message: FromWriter) => this.#heard(message))
    let reason = 'it ended'
    writer.on('error', (error) => {
      reason = error.message
    })
    writer.on('exit', () => {
      // What it said last may still be on its way: the end of a thread and its messages come by different ways.
      for (let last = receiveMessageOnPort(port1); last; last = receiveMessageOnPort(port1))
        this.#heard(last.message)
      if (this.#port === port1) this.#writerDied(reason)
    })
  }

  #heard(message: FromWriter): void {
    switch (message.kind) {
      case 'settled':
        this.#crashes = 0
        this.#settle(message.count, message.failures, message.results)
        break
      case 'closed':
        this.#endPort()
        this.#closed?.(message.error)
        break
    }
  }

  #settle(count: number, failures: readonly UnitFailure[], results: readonly UnitResult[] = []): void {
    const values = new Map(results.map(({ unit, value }) => [unit, value]))
    const failed = new Map(failures.map((failure) => [failure.unit, failure]))
    const damage = failures.find((failure) => failure.damaged)
    if (damage) this.condemn(damage.message)
    // A unit that fails alone is its own fault; when nothing could be written it is the disk's.
    if (failures.length === 0) this.#failing = null
    else if (
      failures.length === count &&
      failures.every(({ sqlite }) => !sqlite.startsWith('SQLITE_CONSTRAINT'))
    )
      this.#failing = failures[0]?.message ?? null
    if (failures[0]) {
      const { code, sqlite, message: said } = failures[0]
      this.#log.error({ code, sqlite, failed: failures.length, of: count }, said)
    }
    measures.failedUnits += failures.length
    for (let i = 0; i < count; i++) {
      const number = this.#first + this.#head
      if (this.#flushedAt[0]?.unit === number) this.#observe()
      const caller = this.#waiting[this.#head++]
      const failure = failed.get(number)
      if (failure)
        caller?.reject(new RoomdError(failure.code, failure.message, { cause: { sqlite: failure.sqlite } }))
      else caller?.resolve(values.get(number))
    }
    if (this.#head === this.#waiting.length || this.#head > 4096) {
      this.#waiting.splice(0, this.#head)
      this.#first += this.#head
      this.#head = 0
    }
    const reached = this.#first + this.#head
    while ((this.#barriers[0]?.upTo ?? Infinity) <= reached) this.#barriers.shift()?.resolve()
  }

  #observe(): void {
    const flushed = this.#flushedAt.shift()
    if (flushed) measures.commits.observe(performance.now() - flushed.at)
  }

  #endPort(): void {
    this.#port?.close()
    this.#port = null
  }

  /** What was under way may be stored or not; its callers rebuild from the store and so find out. */
  #writerDied(reason: string): void {
    this.#endPort()
    this.#log.error({ reason }, 'the thread that writes the store died')
    this.#statementIds.clear()
    this.#fresh = []
    this.#outbox = []
    this.#body = []
    this.#blobs = []
    this.#blobBytes = 0
    this.#queued = 0
    this.#handedOver = this.#first + this.#waiting.length
    this.#crashes++
    if (this.#crashes >= MOST_CRASHES) {
      this.#state = 'read_only'
      this.#reason = `the thread that writes ${this.#file} keeps failing: ${reason}`
    } else if (this.#closing === null) this.#startWriter()
    const count = this.#waiting.length - this.#head
    const first = this.#first + this.#head
    const message = `${this.#file} could not be written: the writing thread died (${reason})`
    this.#settle(
      count,
      Array.from({ length: count }, (_, i) => ({
        unit: first + i,
        code: 'storage_failed',
        message,
        sqlite: 'none',
        damaged: false,
      })),
    )
    this.#closed?.(reason)
  }
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0
}
