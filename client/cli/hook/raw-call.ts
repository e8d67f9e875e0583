/**
 * One request on a connection of its own, with as little code as that takes: a hook's host waits for it, and reading the schemas costs
 * more than all the rest. What comes back is checked only as far as it is used. PROTOCOL.md is the text it follows.
 */
import { randomUUID } from 'node:crypto'
import { statSync } from 'node:fs'
import { connect } from 'node:net'
import { Packr } from 'msgpackr/pack'
import { Unpackr } from 'msgpackr/unpack'
import { FLAG_MORE, FrameType, HEADER_BYTES, MAX_FRAME_PAYLOAD } from '../../../protocol/frames.ts'
import { VERSION } from '../../../protocol/version.ts'
import { PREAMBLE_BYTES, preamble, readPreamble } from '../../../protocol/wire/preamble.ts'

const packr = new Packr({ useRecords: false, variableMapSize: true, skipValues: [undefined] } as never)
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'number' } as never)
/** Answers are small; who sends more is not our daemon. */
const LARGEST_ANSWER = 4 * 1024 * 1024

/** Resolves with the value, rejects with why there is none: nobody listens, a refusal, or nothing within `ms`. */
export function rawCall(socketPath: string, method: string, params: unknown, ms: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const uid = process.getuid?.()
    if (uid !== undefined && statSync(socketPath).uid !== uid)
      throw new Error(`${socketPath} belongs to another user`)
    const socket = connect({ path: socketPath })
    let received = Buffer.alloc(0)
    let greeted = false
    const value: Buffer[] = []
    const end = (settle: () => void): void => {
      clearTimeout(timer)
      socket.destroy()
      settle()
    }
    const fail = (why: string): void => end(() => reject(new Error(why)))
    const timer = setTimeout(() => fail(`no answer within ${ms} ms`), ms)
    socket.on('error', (error) => fail(error.message))
    socket.on('close', () => fail('the connection was closed'))
    socket.on('connect', () => {
      socket.write(preamble())
      send(FrameType.HELLO, {
        client_instance: `hook-${randomUUID()}`,
        client: { name: 'roomd-hook', version: VERSION, pid: process.pid },
        label: 'roomd session hook',
        kind: 'cli',
      })
    })
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes])
      try {
        read()
      } catch (error) {
        fail(`the answer cannot be read: ${(error as Error).message}`)
      }
    })

    function send(type: FrameType, map: unknown): void {
      const payload = packr.pack(map)
      for (let at = 0; at === 0 || at < payload.length; at += MAX_FRAME_PAYLOAD) {
        const piece = payload.subarray(at, at + MAX_FRAME_PAYLOAD)
        const header = Buffer.alloc(HEADER_BYTES)
        header.writeUInt32BE(piece.length, 0)
        header.writeUInt8(type, 4)
        header.writeUInt8(at + piece.length < payload.length ? FLAG_MORE : 0, 5)
        socket.write(Buffer.concat([header, piece]))
      }
    }

    function read(): void {
      if (!greeted) {
        const start = readPreamble(received)
        if (start.kind === 'incomplete') return
        if (start.kind === 'foreign') throw new Error(start.message)
        received = received.subarray(PREAMBLE_BYTES)
        greeted = true
      }
      while (received.length >= HEADER_BYTES) {
        const length = received.readUInt32BE(0)
        if (length > MAX_FRAME_PAYLOAD) throw new Error('a frame is too large')
        if (received.length < HEADER_BYTES + length) return
        const type = received.readUInt8(4)
        const more = (received.readUInt8(5) & FLAG_MORE) !== 0
        const payload = received.subarray(HEADER_BYTES, HEADER_BYTES + length)
        received = received.subarray(HEADER_BYTES + length)
        frame(type, more, payload)
      }
    }

    function frame(type: number, more: boolean, payload: Buffer): void {
      switch (type) {
        case FrameType.WELCOME:
          send(FrameType.REQUEST, { id: 1, method, params, deadline_ms: ms })
          return
        case FrameType.ERROR:
          throw new Error(String((unpackr.unpack(payload) as { message?: unknown }).message))
        case FrameType.RESPONSE: {
          value.push(payload)
          if (value.reduce((sum, piece) => sum + piece.length, 0) > LARGEST_ANSWER)
            throw new Error('it is too large')
          if (more) return
          const answer = unpackr.unpack(Buffer.concat(value)) as {
            ok?: unknown
            value?: unknown
            error?: { message?: unknown }
          }
          if (answer.ok === true) end(() => resolve(answer.value))
          else fail(String(answer.error?.message))
          return
        }
        default:
        // GOAWAY and what newer daemons send: the answer still comes, or the time passes.
      }
    }
  })
}
