/**
 * Heavy work on documents off the main thread. Small files are done at once, where handing them over would cost more; larger
 * ones go to one worker thread, which starts with the first of them and holds no process when it has nothing to do.
 *
 * If the thread dies, what it had under way is rejected as `internal` and the next task starts a new one.
 */
import { Worker } from 'node:worker_threads'
import { RoomdError } from '../../protocol/errors.ts'
import type { CellId, NotebookId } from '../../protocol/ids.ts'
import { programFile } from '../../protocol/programs.ts'
import { type FileCell, type NotebookFile, readNotebook } from './ipynb/read.ts'
import { type WriteRequest, type Written, writeNotebook } from './ipynb/write.ts'
import type { FilePart, FileRequest, StoredPart } from './large-documents.ts'
import type { CellSeed } from './layout.ts'
import { type MergedFile, type MergeRequest, mergeFile } from './merge/merge-file.ts'
import { sizeOf } from './size.ts'
import { type Folded, type FromWorker, pieces, type ToWorker, type WorkerData } from './worker-messages.ts'

/** Files up to this many bytes take the main thread a few milliseconds. */
export const INLINE_BYTES = 128 * 1024

interface Answer {
  readonly message: FromWorker
  readonly cells: FileCell[]
}

type TakePart = (part: FilePart | StoredPart) => void

interface Waiting {
  readonly cells: FileCell[]
  readonly take: TakePart
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: RoomdError) => void
}

export class DocumentWorker {
  readonly #data: WorkerData
  #worker: Worker | null = null
  readonly #waiting = new Map<number, Waiting>()
  #lastId = 0
  #disposed = false

  /** `storeFile`: path of the store's database, for folding journals. */
  constructor(storeFile: string) {
    this.#data = { storeFile }
  }

  /** `readNotebook`, off the main thread when the file is large. */
  async read(bytes: Uint8Array, path: string, ids: readonly CellId[] | null = null): Promise<NotebookFile> {
    if (bytes.length <= INLINE_BYTES) return readNotebook(bytes, path, ids)
    const { message, cells } = await this.#ask((worker, id) =>
      post(worker, { id, kind: 'read', bytes, path, ids }),
    )
    if (message.kind !== 'read') throw unexpected(message)
    return { ...message.file, cells }
  }

  /**
   * Reads a large file that becomes a new document; `take` gets what there is of it as soon as it is there (large-documents.ts).
   * Rejects with what is wrong with the file.
   */
  async openFile(request: FileRequest, take: (part: FilePart) => void): Promise<void> {
    await this.#ask((worker, id) => post(worker, { id, kind: 'open_file', request }), take as TakePart)
  }

  /** Reads what the store has of a large document, the same way. false: nothing. */
  async load(notebookId: NotebookId, take: (part: StoredPart) => void): Promise<boolean> {
    const { message } = await this.#ask(
      (worker, id) => post(worker, { id, kind: 'load', notebookId }),
      take as TakePart,
    )
    if (message.kind !== 'done') throw unexpected(message)
    return message.found
  }

  /** SHA-256 of a large file's bytes, behind the tasks that were asked for before. Rejects when it cannot be read. */
  async hash(path: string): Promise<string> {
    const { message } = await this.#ask((worker, id) => post(worker, { id, kind: 'hash', path }))
    if (message.kind !== 'hashed') throw unexpected(message)
    return message.hash
  }

  /** `writeNotebook`, off the main thread when file or content are large. The request is not to be changed meanwhile. */
  async write(request: WriteRequest): Promise<Written> {
    if ((request.base?.length ?? 0) + weight(request.cells) <= INLINE_BYTES) return writeNotebook(request)
    const { cells, ...rest } = request
    const { message } = await this.#ask(async (worker, id) => {
      await this.#postCells(worker, id, cells)
      post(worker, { id, kind: 'write', request: rest })
    })
    if (message.kind !== 'written') throw unexpected(message)
    return message.written
  }

  /** `mergeFile`, off the main thread when file or room are large. The request is not to be changed meanwhile. */
  async merge(request: MergeRequest): Promise<MergedFile> {
    const { base, disk, cells, ...rest } = request
    if (base.length + disk.length + weight(cells) <= INLINE_BYTES) return mergeFile(request)
    const { message } = await this.#ask(async (worker, id) => {
      await this.#postCells(worker, id, cells)
      post(worker, { id, kind: 'merge', request: { base, disk, ...rest } })
    })
    if (message.kind !== 'merged') throw unexpected(message)
    return message.merged
  }

  /** What the store has of a document as one snapshot; null when there is nothing to fold. */
  async fold(notebookId: NotebookId): Promise<Folded | null> {
    const { message } = await this.#ask((worker, id) => post(worker, { id, kind: 'fold', notebookId }))
    if (message.kind !== 'folded') throw unexpected(message)
    return message.folded
  }

  /** Ends the thread; what is under way is rejected. */
  async dispose(): Promise<void> {
    this.#disposed = true
    await this.#worker?.terminate()
  }

  async #postCells(worker: Worker, id: number, cells: readonly CellSeed[]): Promise<void> {
    for (const piece of pieces(cells, sizeOf)) {
      post(worker, { id, kind: 'cells', cells: piece })
      // Taking copies is work; others get their turn in between.
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
  }

  #ask(
    send: (worker: Worker, id: number) => void | Promise<void>,
    take: TakePart = () => {},
  ): Promise<Answer> {
    if (this.#disposed) return Promise.reject(new RoomdError('shutting_down', 'the daemon is shutting down'))
    const worker = this.#worker ?? this.#start()
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { cells: [], take, resolve, reject })
      worker.ref()
      // Values that cannot be copied to a thread make it throw.
      Promise.resolve(send(worker, id)).catch((thrown: unknown) => {
        this.#waiting.delete(id)
        reject(new RoomdError('internal', `the document could not be handed over: ${String(thrown)}`))
      })
    })
  }

  #start(): Worker {
    const worker = new Worker(programFile('file-worker'), { workerData: this.#data })
    this.#worker = worker
    let reason = 'it ended'
    worker.on('message', (message: FromWorker) => this.#heard(message))
    worker.on('error', (error) => {
      reason = error.message
    })
    worker.on('exit', () => {
      this.#worker = null
      const waiting = [...this.#waiting.values()]
      this.#waiting.clear()
      const error = this.#disposed
        ? new RoomdError('shutting_down', 'the daemon is shutting down')
        : new RoomdError('internal', `the thread that works on documents died: ${reason}; try again`, {
            retryable: true,
          })
      for (const { reject } of waiting) reject(error)
    })
    return worker
  }

  #heard(message: FromWorker): void {
    const waiting = this.#waiting.get(message.id)
    if (waiting === undefined) return
    if (message.kind === 'cells') {
      waiting.cells.push(...message.cells)
      return
    }
    if (message.kind === 'part') {
      waiting.take(message.part)
      return
    }
    this.#waiting.delete(message.id)
    if (this.#waiting.size === 0) this.#worker?.unref()
    if (message.kind === 'failed') waiting.reject(RoomdError.fromWire(message.error))
    else waiting.resolve({ message, cells: waiting.cells })
  }
}

function post(worker: Worker, message: ToWorker): void {
  worker.postMessage(message)
}

/** Characters of cells, about. Stops counting once they are many. */
function weight(cells: readonly CellSeed[]): number {
  let sum = 0
  for (const cell of cells) {
    sum += sizeOf(cell)
    if (sum > INLINE_BYTES) break
  }
  return sum
}

function unexpected(message: FromWorker): RoomdError {
  return new RoomdError('internal', `the thread that works on documents answered ${message.kind}`)
}
