/**
 * Tells the client when what it subscribed to changed; several changes within 100 ms are told as one. A subscribed notebook is watched
 * through the active session where it is that, else through a peer of its own that is held as long as somebody subscribes.
 *
 * What changed is found by comparing: parts of a room's state are replaced when they change, so that identity tells.
 */
import type { Clock } from '../../../protocol/clock.ts'
import { RoomdError } from '../../../protocol/errors.ts'
import type { Room } from '../../sdk/room.ts'
import type { DaemonLink } from '../daemon-link.ts'
import type { Lease } from '../sessions/guests.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { parseUri, type ResourceName } from './uri.ts'

const EVERY = 100

interface Watch {
  readonly room: Room
  readonly release: () => void
}

interface Subscription {
  readonly uri: string
  readonly name: ResourceName
  readonly notebookId: string | null
  /** What it showed when it was last told. */
  seen: readonly unknown[]
}

export class Subscriptions {
  readonly #sessions: Sessions
  readonly #daemon: DaemonLink
  readonly #clock: Clock
  readonly #updated: (uri: string) => void
  readonly #subscriptions = new Map<string, Subscription>()
  readonly #watches = new Map<string, Watch>()
  readonly #opening = new Set<string>()
  readonly #stop: () => void
  #timer: (() => void) | null = null
  #disposed = false

  constructor(options: {
    sessions: Sessions
    daemon: DaemonLink
    clock: Clock
    updated: (uri: string) => void
  }) {
    this.#sessions = options.sessions
    this.#daemon = options.daemon
    this.#clock = options.clock
    this.#updated = options.updated
    this.#stop = this.#sessions.on('changed', () => {
      for (const { uri, name } of this.#subscriptions.values())
        if (name.kind === 'notebooks') this.#updated(uri)
      this.#settle()
    })
  }

  /** Rejects with `not_found` for what is no resource. */
  async subscribe(uri: string): Promise<void> {
    const name = parseUri(uri)
    if (!name) throw new RoomdError('not_found', `${uri} is no resource of roomd`)
    const notebookId = await this.#notebookOf(name)
    const watch = notebookId === null ? undefined : this.#watches.get(notebookId)
    this.#subscriptions.set(uri, { uri, name, notebookId, seen: watch ? view(name, watch.room) : [] })
    this.#settle()
  }

  unsubscribe(uri: string): void {
    this.#subscriptions.delete(uri)
    this.#settle()
  }

  dispose(): void {
    this.#disposed = true
    this.#stop()
    this.#timer?.()
    for (const watch of this.#watches.values()) watch.release()
    this.#watches.clear()
  }

  async #notebookOf(name: ResourceName): Promise<string | null> {
    switch (name.kind) {
      case 'notebooks':
        return null
      case 'cells':
      case 'cell':
        return name.notebookId
      case 'output': {
        const client = await this.#daemon.local()
        const { execution } = await client.call('get_execution', { execution_id: name.executionId })
        return execution.notebook_id
      }
    }
  }

  /** Watches what is subscribed to through the right peer, and nothing else. */
  #settle(): void {
    if (this.#disposed) return
    const wanted = new Set([...this.#subscriptions.values()].flatMap(({ notebookId }) => notebookId ?? []))
    for (const [id, watch] of this.#watches) {
      const { active } = this.#sessions
      const right =
        active?.notebookId === id ? watch.room === active.room : watch.room.state.attachment !== 'closed'
      if (wanted.has(id) && right && watch.room.state.attachment !== 'lost') continue
      watch.release()
      this.#watches.delete(id)
    }
    for (const id of wanted) if (!this.#watches.has(id) && !this.#opening.has(id)) this.#watch(id)
  }

  #watch(notebookId: string): void {
    const { active } = this.#sessions
    if (active?.notebookId === notebookId) {
      // The session's own peer: it goes when the session goes.
      this.#listen(notebookId, active.room, () => {})
      return
    }
    this.#opening.add(notebookId)
    this.#sessions.use(notebookId).then(
      (lease: Lease) => {
        this.#opening.delete(notebookId)
        if (this.#disposed) lease.release()
        else this.#listen(notebookId, lease.room, lease.release)
        this.#settle()
      },
      () => {
        // The notebook is gone, or the daemon stays away: nothing changes there that could be told.
        this.#opening.delete(notebookId)
      },
    )
  }

  #listen(notebookId: string, room: Room, release: () => void): void {
    const stopChange = room.state.on('change', () => this.#soon())
    const stopLost = room.on('lost', () => this.#settle())
    this.#watches.set(notebookId, {
      room,
      release: () => {
        stopChange()
        stopLost()
        release()
      },
    })
    for (const subscription of this.#subscriptions.values()) {
      if (subscription.notebookId !== notebookId) continue
      // The first look is what the subscriber is taken to know, unless it knew something before.
      if (subscription.seen.length === 0) subscription.seen = view(subscription.name, room)
    }
    this.#soon()
  }

  #soon(): void {
    this.#timer ??= this.#clock.after(EVERY, () => {
      this.#timer = null
      this.#look()
    })
  }

  #look(): void {
    for (const subscription of this.#subscriptions.values()) {
      const { notebookId, name, uri } = subscription
      const watch = notebookId === null ? undefined : this.#watches.get(notebookId)
      if (!watch) continue
      const now = view(name, watch.room)
      if (same(now, subscription.seen)) continue
      subscription.seen = now
      this.#updated(uri)
    }
  }
}

/** The parts of a room's state that a resource shows. */
function view(name: ResourceName, room: Room): readonly unknown[] {
  const { state } = room
  switch (name.kind) {
    case 'notebooks':
      return []
    case 'cells':
      return [state.cells, state.readiness, state.kernel, state.source.path]
    case 'cell':
      return [state.cells.find((cell) => cell.cell_id === name.cellId)]
    case 'output':
      return [state.execution(name.executionId)?.outputs[name.index]]
  }
}

function same(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i])
}
