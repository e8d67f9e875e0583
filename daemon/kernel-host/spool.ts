/**
 * The host's events on disk until the daemon says that they are durable there: the buffer for a daemon that is slow or away, and
 * what a new host goes on from when this one dies. Memory holds none of it.
 *
 * Segments `<first seq>.log` of records `u32 length | u32 check | f64 seq | payload` (big endian; check is the length's
 * complement to a constant), seq rising. A batch of events is one write into the page cache, without fsync: what it must outlive
 * is this process, and a machine that fails takes the kernel with it. A half-written tail is cut off when the spool is opened.
 */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writevSync,
} from 'node:fs'
import { join } from 'node:path'

export interface SpoolRecord {
  readonly seq: number
  readonly payload: Uint8Array
  /** Position behind it in the spool's whole history, in bytes: differences of it are sizes. */
  readonly end: number
}

const HEADER = 16
const CHECK = 0x726f6f6d
const SEGMENT_BYTES = 8 * 1024 * 1024
/** A segment's index has one entry for so many bytes. */
const INDEX_BYTES = 64 * 1024
/** A fully acknowledged segment above this is replaced by an empty one. */
const KEEP_BYTES = 256 * 1024

interface Segment {
  readonly path: string
  readonly file: number
  readonly first: number
  last: number
  /** Position of its first byte in the whole history. */
  readonly base: number
  size: number
  /** Rising; seq of a record and its offset. */
  readonly index: { seq: number; offset: number }[]
}

export class Spool {
  readonly #folder: string
  readonly #segments: Segment[] = []
  #last = 0
  #end = 0
  #acknowledgedEnd = 0
  /** Where reading left off, so that reading on needs no search. */
  #cursor: { seq: number; segment: Segment; offset: number } | null = null

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const names = readdirSync(folder)
      .filter((name) => /^\d+\.log$/.test(name))
      .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
    for (const name of names) this.#load(name)
  }

  /** Highest seq that was ever appended and is still known; 0 for none. */
  get last(): number {
    return this.#last
  }

  /** Position behind the last record. */
  get end(): number {
    return this.#end
  }

  /** Position up to which everything is acknowledged; at most one index step behind the truth, exact when all is. */
  get acknowledgedEnd(): number {
    return this.#acknowledgedEnd
  }

  /** Appends in one write. Throws the system's error with nothing appended. */
  append(records: readonly { readonly seq: number; readonly payload: Uint8Array }[]): void {
    const first = records[0]
    if (first === undefined) return
    const segment = this.#segmentFor(first.seq)
    const pieces: Uint8Array[] = []
    let size = 0
    for (const { seq, payload } of records) {
      const header = Buffer.allocUnsafe(HEADER)
      header.writeUInt32BE(payload.length, 0)
      header.writeUInt32BE((CHECK ^ payload.length) >>> 0, 4)
      header.writeDoubleBE(seq, 8)
      pieces.push(header, payload)
      size += HEADER + payload.length
    }
    try {
      if (writevSync(segment.file, pieces, segment.size) !== size)
        throw new Error('the disk took only a part')
    } catch (error) {
      ftruncateSync(segment.file, segment.size)
      throw error
    }
    for (const { seq, payload } of records) {
      this.#note(segment, seq, segment.size)
      segment.size += HEADER + payload.length
      segment.last = seq
    }
    this.#last = segment.last
    this.#end += size
  }

  /** Records after `seq` in order, about `limit` bytes of them but at least one if there is one. */
  read(seq: number, limit: number): SpoolRecord[] {
    const start = this.#cursor?.seq === seq ? this.#cursor : this.#seek(seq)
    if (start === null) return []
    let { segment, offset } = start
    if (offset >= segment.size) {
      const next = this.#segments[this.#segments.indexOf(segment) + 1]
      if (next === undefined) return []
      segment = next
      offset = 0
    }
    const records = readRecords(segment, offset, limit)
    const last = records.at(-1)
    if (last !== undefined) this.#cursor = { seq: last.seq, segment, offset: last.end - segment.base }
    return records
  }

  /** Forgets everything up to `seq`. */
  acknowledge(seq: number): void {
    for (let segment = this.#segments[0]; segment !== undefined; segment = this.#segments[0]) {
      const current = this.#segments.length === 1
      if (seq >= segment.last)
        this.#acknowledgedEnd = Math.max(this.#acknowledgedEnd, segment.base + segment.size)
      else {
        const known = segment.index.findLast((entry) => entry.seq <= seq + 1)
        if (known !== undefined)
          this.#acknowledgedEnd = Math.max(this.#acknowledgedEnd, segment.base + known.offset)
        return
      }
      // The newest segment is kept while it is small; its last seq is what a new host counts on from.
      if (current && segment.size < KEEP_BYTES) return
      if (current) this.#begin(segment.last + 1)
      this.#remove(segment)
    }
  }

  close(): void {
    for (const segment of this.#segments) closeSync(segment.file)
    this.#segments.length = 0
  }

  #segmentFor(seq: number): Segment {
    const current = this.#segments.at(-1)
    return current !== undefined && current.size < SEGMENT_BYTES ? current : this.#begin(seq)
  }

  #begin(seq: number): Segment {
    const path = join(this.#folder, `${seq}.log`)
    const file = openSync(path, 'a+', 0o600)
    const segment = { path, file, first: seq, last: seq - 1, base: this.#end, size: 0, index: [] }
    this.#segments.push(segment)
    return segment
  }

  #remove(segment: Segment): void {
    this.#segments.splice(this.#segments.indexOf(segment), 1)
    if (this.#cursor?.segment === segment) this.#cursor = null
    closeSync(segment.file)
    rmSync(segment.path, { force: true })
  }

  #note(segment: Segment, seq: number, offset: number): void {
    const known = segment.index.at(-1)
    if (known === undefined || offset - known.offset >= INDEX_BYTES) segment.index.push({ seq, offset })
  }

  #load(name: string): void {
    const path = join(this.#folder, name)
    const file = openSync(path, 'r+')
    const first = Number.parseInt(name, 10)
    const segment: Segment = {
      path,
      file,
      first,
      last: first - 1,
      base: this.#end,
      size: fstatSync(file).size,
      index: [],
    }
    let whole = 0
    for (const record of allRecords(segment)) {
      this.#note(segment, record.seq, whole)
      whole = record.end - segment.base
      segment.last = record.seq
    }
    if (whole < segment.size) ftruncateSync(file, whole)
    segment.size = whole
    this.#segments.push(segment)
    this.#last = Math.max(this.#last, segment.last)
    this.#end += whole
  }

  #seek(seq: number): { segment: Segment; offset: number } | null {
    const segment = this.#segments.find((candidate) => candidate.last > seq) ?? this.#segments.at(-1)
    if (segment === undefined) return null
    if (segment.last <= seq) return { segment, offset: segment.size }
    let offset = segment.index.findLast((entry) => entry.seq <= seq + 1)?.offset ?? 0
    const header = Buffer.alloc(HEADER)
    for (;;) {
      readSync(segment.file, header, 0, HEADER, offset)
      if (header.readDoubleBE(8) > seq) return { segment, offset }
      offset += HEADER + header.readUInt32BE(0)
    }
  }
}

/** Whole and valid records from `offset` on, about `limit` bytes. */
function readRecords(segment: Segment, offset: number, limit: number): SpoolRecord[] {
  let chunk = Buffer.allocUnsafe(Math.min(Math.max(limit, HEADER), segment.size - offset))
  let filled = readSync(segment.file, chunk, 0, chunk.length, offset)
  const records: SpoolRecord[] = []
  for (let at = 0; at + HEADER <= filled; ) {
    const length = chunk.readUInt32BE(at)
    const end = offset + at + HEADER + length
    if (chunk.readUInt32BE(at + 4) !== (CHECK ^ length) >>> 0 || end > segment.size) break
    if (at + HEADER + length > filled) {
      if (records.length > 0) break
      // One record longer than the limit is read alone.
      chunk = Buffer.allocUnsafe(HEADER + length)
      filled = readSync(segment.file, chunk, 0, chunk.length, offset)
      if (filled < chunk.length) break
    }
    records.push({
      seq: chunk.readDoubleBE(at + 8),
      payload: chunk.subarray(at + HEADER, at + HEADER + length),
      end: segment.base + end,
    })
    at += HEADER + length
  }
  return records
}

function* allRecords(segment: Segment): Generator<SpoolRecord> {
  for (let offset = 0; ; ) {
    const records = readRecords(segment, offset, 1024 * 1024)
    yield* records
    const last = records.at(-1)
    if (last === undefined) return
    offset = last.end - segment.base
  }
}

/** The last seq of a spool without opening it for writing; 0 when there is none. For a daemon that looks what a host left. */
export function lastSpooled(folder: string): number {
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
  const firsts = names.map((name) => Number.parseInt(name, 10)).filter((first) => first > 0)
  if (firsts.length === 0) return 0
  const first = Math.max(...firsts)
  const path = join(folder, `${first}.log`)
  const file = openSync(path, 'r')
  try {
    let last = first - 1
    const segment = { path, file, first, last, base: 0, size: fstatSync(file).size, index: [] }
    for (const record of allRecords(segment)) last = record.seq
    return last
  } finally {
    closeSync(file)
  }
}
