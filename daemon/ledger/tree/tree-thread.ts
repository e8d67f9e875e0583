/**
 * The ledger's worker thread as the main thread has it. Starts with the first task, holds no process when it has nothing to do. If it
 * dies, what is under way is rejected and the next task starts a new one.
 */
import { Worker } from 'node:worker_threads'
import { RoomdError } from '../../../protocol/errors.ts'
import { programFile } from '../../../protocol/programs.ts'
import type { ImportEntry, ReadReport } from './entry.ts'
import type { FromLedgerWorker, LedgerWorkerData, MirrorChanges, ToLedgerWorker } from './worker-messages.ts'
import type { TreeOptions, Written } from './write-tree.ts'

interface Waiting {
  readonly heard: (message: FromLedgerWorker) => void
  readonly reject: (error: RoomdError) => void
}

export class TreeThread {
  readonly #data: LedgerWorkerData
  readonly #waiting = new Map<number, Waiting>()
  #worker: Worker | null = null
  #lastId = 0
  #disposed = false

  constructor(storeFile: string) {
    this.#data = { storeFile }
  }

  /** `store` takes each batch; the next is read when it has. */
  import(
    roots: readonly string[],
    quarantine: string,
    store: (entries: readonly ImportEntry[]) => Promise<void>,
  ): Promise<ReadReport> {
    return this.#task((id, resolve, reject) => ({
      first: { id, kind: 'import', roots, quarantine },
      heard: (message) => {
        if (message.kind === 'imported') resolve(message.report)
        else if (message.kind === 'batch')
          store(message.entries).then(() => this.#post({ id, kind: 'go' }), reject)
        else reject(unexpected(message))
      },
    }))
  }

  export(dir: string, options: TreeOptions): Promise<Written> {
    return this.#write((id) => ({ id, kind: 'export', dir, options }))
  }

  mirror(dir: string, options: TreeOptions, changes: MirrorChanges): Promise<Written> {
    return this.#write((id) => ({ id, kind: 'mirror', dir, options, changes }))
  }

  async dispose(): Promise<void> {
    this.#disposed = true
    await this.#worker?.terminate()
  }

  #write(first: (id: number) => ToLedgerWorker): Promise<Written> {
    return this.#task((id, resolve, reject) => ({
      first: first(id),
      heard: (message) => {
        if (message.kind === 'written') resolve(message.written)
        else reject(unexpected(message))
      },
    }))
  }

  #task<T>(
    begin: (
      id: number,
      resolve: (value: T) => void,
      reject: (error: Error) => void,
    ) => { first: ToLedgerWorker; heard: (message: FromLedgerWorker) => void },
  ): Promise<T> {
    if (this.#disposed) return Promise.reject(new RoomdError('shutting_down', 'the daemon is shutting down'))
    const id = ++this.#lastId
    const done = new Promise<T>((resolve, reject) => {
      const { first, heard } = begin(id, resolve, reject)
      this.#waiting.set(id, { heard, reject })
      this.#post(first)
    })
    return done.finally(() => {
      this.#waiting.delete(id)
      if (this.#waiting.size === 0) this.#worker?.unref()
    })
  }

  #post(message: ToLedgerWorker): void {
    const worker = this.#worker ?? this.#start()
    worker.ref()
    worker.postMessage(message)
  }

  #start(): Worker {
    const worker = new Worker(programFile('ledger-worker'), { workerData: this.#data })
    this.#worker = worker
    let reason = 'it ended'
    worker.on('message', (message: FromLedgerWorker) => {
      const waiting = this.#waiting.get(message.id)
      if (message.kind === 'failed') waiting?.reject(RoomdError.fromWire(message.error))
      else waiting?.heard(message)
    })
    worker.on('error', (error) => {
      reason = error.message
    })
    worker.on('exit', () => {
      this.#worker = null
      const error = this.#disposed
        ? new RoomdError('shutting_down', 'the daemon is shutting down')
        : new RoomdError('internal', `the thread that reads and writes trees died: ${reason}; try again`, {
            retryable: true,
          })
      for (const { reject } of [...this.#waiting.values()]) reject(error)
    })
    return worker
  }
}

function unexpected(message: FromLedgerWorker): RoomdError {
  return new RoomdError('internal', `the thread that reads and writes trees answered ${message.kind}`)
}
