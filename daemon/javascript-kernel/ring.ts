/**
 * The way of everything the kernel says: a ring of bytes in shared memory, written by the main thread, read by the channels
 * thread. It keeps order, needs no event loop on the writer's side (output of `while (true) console.log()` gets out), and bounds
 * memory: a writer that is ahead of the reader waits.
 *
 * Invariant: a record exists when `head` has passed it. An interrupt may end the writer at any instruction; what it had not
 * committed is not there, and a long text cut short is dropped by the reader when the next one begins.
 *
 * Record: int32 byte length, int32 flags, int32 tag, int32 unused, then UTF-8 text; aligned to 16 and never wrapped (a padding
 * record fills the rest of the ring).
 */
const capacity = 1 << 20
const headerBytes = 16
/** Text pieces in UTF-16 units; at most three bytes each. */
const pieceUnits = 32 * 1024

const first = 1 << 8
const last = 1 << 9
const padding = 1 << 10
const kindMask = 0xff

/** Words at the start of the shared memory. */
export const word = {
  head: 0,
  tail: 1,
  /** Raised with each answer to an input request. */
  stdin: 2,
  /** 1: everything was sent and the sockets are closed. */
  exited: 3,
  /** 1 while the main thread runs inside a guard, where SIGINT reaches it. */
  guarded: 4,
  /** 1: an interrupt is on its way to the main thread, which sets it back. */
  interrupt: 5,
  /** 1: the sentinel is watching. */
  sentinel: 6,
  /** Always 0, to sleep on. */
  nothing: 7,
  /** 1 while a SIGINT of the kernel's own is under way. */
  signalled: 8,
} as const
const wordBytes = 64

export interface SharedMemory {
  readonly buffer: SharedArrayBuffer
  readonly words: Int32Array
  readonly data: Buffer
  readonly view: Int32Array
}

export function createSharedMemory(): SharedMemory {
  return openSharedMemory(new SharedArrayBuffer(wordBytes + capacity))
}

export function openSharedMemory(buffer: SharedArrayBuffer): SharedMemory {
  return {
    buffer,
    words: new Int32Array(buffer, 0, wordBytes / 4),
    data: Buffer.from(buffer, wordBytes, capacity),
    view: new Int32Array(buffer, wordBytes, capacity / 4),
  }
}

/** Writing side. `kind` is 0–255, `tag` any int32; both come back to the reader. */
export class RingWriter {
  readonly #shared: SharedMemory

  constructor(shared: SharedMemory) {
    this.#shared = shared
  }

  write(kind: number, tag: number, text: string): void {
    if (text.length <= pieceUnits) {
      this.#piece(kind | first | last, tag, text)
      return
    }
    for (let at = 0; at < text.length; ) {
      const end = cut(text, at)
      const flags = kind | (at === 0 ? first : 0) | (end === text.length ? last : 0)
      this.#piece(flags, tag, text.slice(at, end))
      at = end
    }
  }

  #piece(flags: number, tag: number, text: string): void {
    const { words, data, view } = this.#shared
    const most = align(headerBytes + text.length * 3)
    let head = Atomics.load(words, word.head)
    let offset = head & (capacity - 1)
    if (offset + most > capacity) {
      this.#waitFor(head, capacity - offset)
      view[offset >> 2] = capacity - offset - headerBytes
      view[(offset >> 2) + 1] = padding
      head = (head + capacity - offset) | 0
      offset = 0
      Atomics.store(words, word.head, head)
    }
    this.#waitFor(head, most)
    const bytes = data.write(text, offset + headerBytes, 'utf8')
    const at = offset >> 2
    view[at] = bytes
    view[at + 1] = flags
    view[at + 2] = tag
    Atomics.store(words, word.head, (head + align(headerBytes + bytes)) | 0)
    Atomics.notify(words, word.head)
  }

  #waitFor(head: number, bytes: number): void {
    const { words } = this.#shared
    for (;;) {
      const tail = Atomics.load(words, word.tail)
      if (capacity - ((head - tail) | 0) >= bytes) return
      // The reader may be asleep since before a padding record that nobody was told of.
      Atomics.notify(words, word.head)
      Atomics.wait(words, word.tail, tail)
    }
  }
}

/** Reading side. */
export class RingReader {
  readonly #shared: SharedMemory
  #partial: string[] = []

  constructor(shared: SharedMemory) {
    this.#shared = shared
  }

  /**
   * Gives records to `take` until the ring is empty or `budget` bytes were read. Pieces of a long text are joined, except those
   * whose kind `streams` names: they come as they are.
   */
  read(
    budget: number,
    streams: (kind: number) => boolean,
    take: (kind: number, tag: number, text: string) => void,
  ): boolean {
    const { words, data, view } = this.#shared
    let tail = Atomics.load(words, word.tail)
    for (let bytes = 0; bytes < budget; ) {
      if (tail === Atomics.load(words, word.head)) return true
      const offset = tail & (capacity - 1)
      const at = offset >> 2
      const length = view[at] ?? 0
      const flags = view[at + 1] ?? 0
      const tag = view[at + 2] ?? 0
      const text =
        flags & padding ? '' : data.toString('utf8', offset + headerBytes, offset + headerBytes + length)
      const size = align(headerBytes + length)
      tail = (tail + size) | 0
      bytes += size
      Atomics.store(words, word.tail, tail)
      Atomics.notify(words, word.tail)
      if (flags & padding) continue
      const kind = flags & kindMask
      if (streams(kind) || (flags & first && flags & last)) {
        this.#partial = []
        take(kind, tag, text)
        continue
      }
      if (flags & first) this.#partial = []
      this.#partial.push(text)
      if (flags & last) {
        const whole = this.#partial.join('')
        this.#partial = []
        take(kind, tag, whole)
      }
    }
    return tail === Atomics.load(words, word.head)
  }

  /** Calls back once when the ring has, or gets, something to read. */
  whenReadable(callback: () => void): void {
    const { words } = this.#shared
    const head = Atomics.load(words, word.head)
    if (head !== Atomics.load(words, word.tail)) {
      setImmediate(callback)
      return
    }
    const waiting = (Atomics as AtomicsWithWaitAsync).waitAsync(words, word.head, head)
    if (waiting.async) void waiting.value.then(callback)
    else setImmediate(callback)
  }
}

/** ES2024; in Node since 16. */
interface AtomicsWithWaitAsync extends Atomics {
  waitAsync(
    words: Int32Array,
    index: number,
    value: number,
  ): { async: false; value: string } | { async: true; value: Promise<string> }
}

function align(bytes: number): number {
  return (bytes + 15) & ~15
}

/** End of the next piece, never between the halves of a surrogate pair. */
function cut(text: string, at: number): number {
  const end = at + pieceUnits
  if (end >= text.length) return text.length
  const code = text.charCodeAt(end - 1)
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end
}
