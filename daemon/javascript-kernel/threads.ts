/** What the two threads of the kernel say to each other. */
import type { MessagePort } from 'node:worker_threads'
import type { ConnectionInfo } from './connection-file.ts'
import type { Json } from './wire.ts'

/** Given to the channels thread when it starts. */
export interface ChannelsStart {
  readonly thread: 'channels'
  readonly connection: ConnectionInfo
  readonly memory: SharedArrayBuffer
  readonly requests: MessagePort
  readonly stdin: MessagePort
}

/** Given to the sentinel thread when it starts. */
export interface SentinelStart {
  readonly thread: 'sentinel'
  readonly memory: SharedArrayBuffer
  readonly requests: MessagePort
}

/** A request of a client. `ref` names it between the threads as long as anything may still answer to it. */
export interface Request {
  readonly type: 'request'
  readonly ref: number
  readonly msgType: string
  readonly content: Json
  readonly metadata: Json
}

/** To the main thread, over the requests port, in order. */
export type ToMain =
  | Request
  /** Everything that clients had sent before the `barrier` record with this token was read has been forwarded. */
  | { readonly type: 'barrier'; readonly token: number }
  /** Only while the `interrupt` word is 1: otherwise the signal has found its way already. */
  | { readonly type: 'interrupt' }
  | { readonly type: 'exit' }

/** To the main thread, over the stdin port; the `stdin` word of the shared memory is raised with it. */
export type StdinAnswer = { readonly value: string }

/** Kinds of ring records. The tag is the request's ref, or the token of a barrier. */
export const record = {
  stdout: 1,
  stderr: 2,
  /** JSON of `{t: message type, c: content, m?: metadata}`. */
  iopub: 3,
  reply: 4,
  inputRequest: 5,
  barrier: 6,
  /** Nothing will answer to this ref any more. */
  release: 7,
  /** The process ends: flush, close the sockets, raise the `exited` word. */
  exit: 8,
} as const

export interface RecordBody {
  readonly t: string
  readonly c: Json
  readonly m?: Json
}
