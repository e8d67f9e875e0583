/**
 * The active session: one room of one daemon incarnation, opened by one activation. Owns its peer; `dispose` releases it, once: at
 * once, or when the calls that are under way in the room have ended.
 */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Client } from '../../sdk/client.ts'
import type { Room } from '../../sdk/room.ts'
import type { Lease } from './guests.ts'
import { canonicalPath, idKey, keyOf, pathKey, type Target } from './target.ts'

export interface SessionOptions {
  readonly room: Room
  readonly client: Client
  /** What it was opened by. */
  readonly target: Target
  readonly generation: number
  readonly bootId: string
  /** The room cannot be had any more. */
  readonly lost: (session: Session, error: RoomdError) => void
  /** It was saved to a path, or its path changed. */
  readonly moved: (session: Session, path: string) => void
}

export class Session {
  readonly room: Room
  readonly client: Client
  readonly generation: number
  readonly origin: 'local' | 'remote'
  readonly #opened: Target
  readonly #stop: Array<() => void>
  #bootId: string
  #disposed = false
  #uses = 0

  constructor({ room, client, target, generation, bootId, lost, moved }: SessionOptions) {
    this.room = room
    this.client = client
    this.generation = generation
    this.origin = target.kind === 'remote' ? 'remote' : 'local'
    this.#opened = target
    this.#bootId = bootId
    let path = room.state.source.path
    this.#stop = [
      room.on('resumed', (resumed) => {
        this.#bootId = resumed.boot_id
      }),
      room.on('lost', (error) => {
        this.#end()
        lost(this, error)
      }),
      room.state.on('change', () => {
        const now = room.state.source.path
        if (now === null || now === path) return
        path = now
        moved(this, now)
      }),
    ]
  }

  get notebookId(): string {
    return this.room.id
  }

  get path(): string | null {
    return this.room.state.source.path
  }

  /** The daemon incarnation it is bound to. */
  get bootId(): string {
    return this.#bootId
  }

  /** What a new process opens it by: the URL of a remote one, the path where there is one, else the id. */
  get target(): Target {
    if (this.#opened.kind === 'remote') return this.#opened
    const { path } = this
    // A path is never given up for an id, also when the room has lost its file since.
    if (path !== null) return { kind: 'path', path }
    return this.#opened.kind === 'path' ? this.#opened : { kind: 'id', id: this.room.id }
  }

  /** Every key that names it. */
  get keys(): readonly string[] {
    if (this.#opened.kind === 'remote') return [keyOf(this.#opened)]
    const { path } = this
    return [
      keyOf(this.#opened),
      idKey(this.notebookId),
      ...(path === null ? [] : [pathKey(canonicalPath(path))]),
    ]
  }

  /** Attached to the daemon that answers now. */
  get bound(): boolean {
    return (
      !this.#disposed &&
      this.room.state.attachment === 'attached' &&
      this.client.daemon?.boot_id === this.#bootId
    )
  }

  /** Use of the room by one call. */
  lease(): Lease {
    this.#uses++
    let released = false
    return {
      room: this.room,
      client: this.client,
      release: () => {
        if (released) return
        released = true
        this.#uses--
        if (this.#disposed && this.#uses === 0) this.#detach()
      },
    }
  }

  /** Drops the peer, after the calls that use it or `now`. Idempotent; the room and its kernel go on. */
  dispose(now = false): void {
    this.#end()
    if (now || this.#uses === 0) this.#detach()
  }

  #detach(): void {
    this.room.end(new RoomdError('client_closed', 'the session was closed'))
  }

  #end(): void {
    if (this.#disposed) return
    this.#disposed = true
    for (const stop of this.#stop) stop()
  }
}
