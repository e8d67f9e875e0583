/**
 * `/blob/{sha256}`: the bytes of an output. The address is the digest, so an answer never changes and is kept for ever. What a
 * kernel printed is not trusted: it is never guessed to be something that runs (`nosniff`), and where a page opens it, it is in
 * a sandbox with an origin of its own, without scripts and without a network.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { RoomdError } from '../../protocol/errors.ts'
import { BlobHash } from '../../protocol/ids.ts'
import { declared, isContentType, SNIFF_BYTES, sniff } from './content-type.ts'
import { Refusal } from './refusal.ts'

const POLICY =
  "sandbox; default-src 'none'; img-src data:; media-src data:; font-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

export async function serveBlob(
  name: string,
  query: URLSearchParams,
  request: IncomingMessage,
  response: ServerResponse,
  fileOf: (hash: BlobHash) => string,
): Promise<void> {
  const hash = BlobHash.safeParse(name)
  if (!hash.success) throw missing('a blob is named by 64 lower-case hexadecimal digits')
  const type = query.get('type')
  if (type !== null && !isContentType(type)) {
    throw new Refusal(400, new RoomdError('invalid_argument', 'type: expected a mime type'))
  }
  const etag = `"${hash.data}"`
  const headers: Record<string, string | number> = {
    'Cache-Control': 'private, max-age=31536000, immutable',
    ETag: etag,
    'Accept-Ranges': 'bytes',
    'Content-Security-Policy': POLICY,
  }
  const file = fileOf(hash.data)
  const handle = await opened(file)
  try {
    const { size } = await handle.stat()
    if (matches(request.headers['if-none-match'], etag)) {
      response.writeHead(304, headers).end()
      return
    }
    headers['Content-Type'] = type === null ? sniff(await head(handle, size), size) : declared(type)
    const range = rangeOf(request.headers.range, request.headers['if-range'], size, etag)
    if (range === 'beyond') {
      response.writeHead(416, { ...headers, 'Content-Range': `bytes */${size}` }).end()
      return
    }
    const { start, end } = range ?? { start: 0, end: size - 1 }
    headers['Content-Length'] = end - start + 1
    if (range) headers['Content-Range'] = `bytes ${start}-${end}/${size}`
    response.writeHead(range ? 206 : 200, headers)
    if (request.method === 'HEAD' || size === 0) {
      response.end()
      return
    }
    await sent(file, start, end, response)
  } finally {
    await handle.close()
  }
}

/** Streams as fast as the client reads. A client that leaves ends it. */
function sent(file: string, start: number, end: number, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    // What goes wrong now can only cut the answer short, which the length in its header tells.
    pipeline(createReadStream(file, { start, end }), response, () => resolve())
  })
}

async function opened(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw missing('this blob is not stored any more; run the cell again')
  }
}

async function head(handle: FileHandle, size: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(Math.min(size, SNIFF_BYTES))
  const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0)
  return bytes.subarray(0, bytesRead)
}

function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false
  return header.split(',').some((one) => one.trim() === '*' || one.trim().replace(/^W\//, '') === etag)
}

/** One range; several, or another unit, are answered with the whole, which a server may always do. */
function rangeOf(
  header: string | undefined,
  ifRange: string | string[] | undefined,
  size: number,
  etag: string,
): { start: number; end: number } | 'beyond' | null {
  if (header === undefined || (ifRange !== undefined && ifRange !== etag)) return null
  const found = /^bytes=(\d*)-(\d*)$/.exec(header.trim())
  const [, from = '', to = ''] = found ?? []
  if (!found || (from === '' && to === '')) return null
  if (from === '') {
    const last = Number(to)
    return last === 0 || size === 0 ? 'beyond' : { start: Math.max(0, size - last), end: size - 1 }
  }
  const start = Number(from)
  const end = to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (start >= size) return 'beyond'
  return end < start ? null : { start, end }
}

function missing(why: string): Refusal {
  return new Refusal(404, new RoomdError('not_found', why))
}
