/** A registry on a real store in a temporary home, with kernels that are never started and a clock the test moves. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { DocumentWorker } from '../../daemon/documents/document-worker.ts'
import { openBlobs } from '../../daemon/executions/blobs.ts'
import type { KernelProvider } from '../../daemon/kernels/kernel.ts'
import { RoomRegistry } from '../../daemon/rooms/registry.ts'
import type { PeerChannel, RequestContext } from '../../daemon/rooms/seam.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { Store } from '../../daemon/store/store.ts'
import { Open } from '../../protocol/channels.ts'
import { decode } from '../../protocol/codec.ts'
import { FrameType } from '../../protocol/frames.ts'
import { ClientInstance, type MutationId } from '../../protocol/ids.ts'
import { resolvePlaces } from '../../protocol/places.ts'
import { ManualClock } from '../support/manual-clock.ts'

export interface Told {
  readonly type: FrameType
  readonly value: unknown
}

/** A channel that remembers; `room` is how many offers it takes before it refuses. */
export class RememberingChannel implements PeerChannel {
  readonly told: Told[] = []
  closed: string | null = null
  room = Number.POSITIVE_INFINITY
  writable = (): void => {}

  offer(type: FrameType, payload: Uint8Array): boolean {
    if (this.room <= 0) return false
    this.room--
    this.send(type, payload)
    return true
  }

  send(type: FrameType, payload: Uint8Array): void {
    const raw = type === FrameType.DOC || type === FrameType.EPHEMERAL
    this.told.push({ type, value: raw ? payload : decode(payload) })
  }

  close({ code }: { code: string }): void {
    this.closed = code
  }

  of(type: FrameType): unknown[] {
    return this.told.filter((t) => t.type === type).map((t) => t.value)
  }
}

const noKernels: KernelProvider = {
  specs: () => Promise.resolve([]),
  environment: () => Promise.resolve({}),
  program: () => Promise.resolve(''),
  choose: () =>
    Promise.resolve({
      name: 'javascript',
      display_name: 'JavaScript',
      language: 'javascript',
      source: 'embedded',
      path: '',
      usable: true,
    }),
  start: () => Promise.reject(new Error('these tests start no kernel')),
  adopt: () => Promise.resolve({ kernels: [], gone: [] }),
  running: () => [],
  dispose: () => {},
}

export interface RoomsFixture {
  readonly folder: string
  readonly store: Store
  readonly clock: ManualClock
  readonly rooms: RoomRegistry
  /** Writes a notebook with these code cells; returns its path. */
  notebook(name: string, sources: readonly string[]): string
  context(instance?: string, more?: Partial<RequestContext>): RequestContext
  /** A registry on the same store, as after a restart; with a clock of its own where the one before is to stand still, as dead. */
  again(store?: Store, clock?: ManualClock): RoomRegistry
  dispose(): Promise<void>
}

export async function makeRooms(wrap: (store: Store) => Store = (store) => store): Promise<RoomsFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-rooms-'))
  const places = resolvePlaces({ ROOMD_HOME: join(folder, 'home') })
  const log = pino({ level: 'silent' })
  const file = join(folder, 'roomd.db')
  const store = await openStore({ file, log })
  const clock = new ManualClock(1_800_000_000_000)
  const worker = new DocumentWorker(file)
  const blobs = openBlobs(join(folder, 'blobs'))
  const registries: RoomRegistry[] = []
  const again = (other: Store = store, ticking: ManualClock = clock): RoomRegistry => {
    const made = new RoomRegistry({
      store: wrap(other),
      blobs,
      kernels: noKernels,
      places,
      clock: ticking,
      log,
      worker,
    })
    registries.push(made)
    return made
  }
  return {
    folder,
    store,
    clock,
    rooms: again(),
    again,
    notebook(name, sources) {
      const path = join(folder, name)
      const cells = sources.map((source, i) => ({
        cell_type: 'code',
        execution_count: null,
        id: `cell-${i}`,
        metadata: {},
        outputs: [],
        source,
      }))
      writeFileSync(
        path,
        `${JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`,
      )
      return path
    },
    context: (instance = 'test-instance', more = {}) => ({
      identity: {
        connectionId: 'connection',
        clientInstance: ClientInstance.parse(instance),
        label: 'Tester',
        kind: 'editor',
        scope: 'owner',
      },
      signal: new AbortController().signal,
      ...more,
    }),
    async dispose() {
      // What cannot be made durable is refused: these tests break stores.
      await Promise.allSettled(registries.map((rooms) => rooms.shutdown({ kernels: false })))
      await worker.dispose()
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const opening = (target: unknown, mode: 'open' | 'attach' | 'create', more: object = {}) =>
  Open.parse({ target, mode, ...more })

export const mutation = (id: number): MutationId => id as MutationId
