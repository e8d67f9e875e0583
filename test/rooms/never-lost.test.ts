/**
 * Edits in the room, edits of the file by another program, autosaves, looks and crashes in any order: no text that someone wrote is
 * ever lost unless someone who saw it deleted it. Every written line is unique, so that it can be found again.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { RoomRegistry } from '../../daemon/rooms/registry.ts'
import type { AttachedPeer } from '../../daemon/rooms/seam.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { makeRooms, opening, RememberingChannel, type RoomsFixture } from './fixture.ts'

const ROUNDS = Number(process.env.ROOMD_TEST_ROUNDS ?? 8)

interface FileCell {
  id?: string
  cell_type: string
  metadata: object
  source: string | string[]
  outputs?: object[]
  execution_count?: number | null
}
interface File {
  cells: FileCell[]
  metadata: object
  nbformat: number
  nbformat_minor: number
}

type Step =
  | {
      kind: 'room append' | 'room delete' | 'room move' | 'file append' | 'file delete' | 'file move'
      at: number
    }
  | { kind: 'room create' | 'file create'; at: number }
  | { kind: 'file layout' | 'file touched' | 'autosave' | 'save' | 'crash' | 'reconcile' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constantFrom('room append' as const, 'file append' as const),
      at: fc.nat(6),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'room create' as const,
        'file create' as const,
        'room delete' as const,
        'file delete' as const,
        'room move' as const,
        'file move' as const,
      ),
      at: fc.nat(6),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'autosave' as const,
        'save' as const,
        'crash' as const,
        'reconcile' as const,
        'file layout' as const,
        'file touched' as const,
      ),
    }),
  },
)

class World {
  readonly #fixture: RoomsFixture
  readonly path: string
  #rooms: RoomRegistry
  #clock: ManualClock
  #peer!: AttachedPeer
  #written = 0
  /** Lines that must be somewhere. */
  readonly wanted = new Set<string>()

  constructor(fixture: RoomsFixture, withIds: boolean) {
    this.#fixture = fixture
    this.#rooms = fixture.rooms
    this.#clock = fixture.clock
    this.path = fixture.notebook('a.ipynb', [])
    const start = ['first', 'second', 'third'].map((name, index) => this.#line(`${name} ${index}`))
    this.#store({
      cells: start.map((source, index) => ({
        ...(withIds ? { id: `cell-${index}` } : {}),
        cell_type: 'code',
        metadata: {},
        source,
        outputs: [],
        execution_count: null,
      })),
      metadata: {},
      nbformat: 4,
      nbformat_minor: withIds ? 5 : 4,
    })
  }

  async attach(): Promise<void> {
    this.#peer = await this.#rooms.attach(
      opening({ path: this.path }, 'open'),
      this.#fixture.context(),
      new RememberingChannel(),
    )
  }

  async do(step: Step): Promise<void> {
    switch (step.kind) {
      case 'room append': {
        const cell = await this.#cell(step.at)
        if (cell)
          await this.#edit({
            op: 'set_source',
            cell_id: cell.cell_id,
            source: `${cell.source}\n${this.#line('room')}`,
          })
        return
      }
      case 'room create': {
        const cell = await this.#cell(step.at)
        await this.#edit({
          op: 'create_cell',
          source: this.#line('room made'),
          cell_type: 'code',
          after_cell_id: cell?.cell_id ?? null,
        })
        return
      }
      case 'room delete': {
        const cell = await this.#cell(step.at)
        if (cell && (await this.#edit({ op: 'delete_cell', cell_id: cell.cell_id })))
          this.#deleted(cell.source)
        return
      }
      case 'room move': {
        const cell = await this.#cell(step.at)
        if (cell) await this.#edit({ op: 'move_cell', cell_id: cell.cell_id, after_cell_id: null })
        return
      }
      case 'file append':
        return this.#change((file) => {
          const cell = file.cells[step.at % Math.max(1, file.cells.length)]
          if (cell) cell.source = `${textOf(cell)}\n${this.#line('file')}`
        })
      case 'file create':
        return this.#change((file) => {
          file.cells.splice(step.at % (file.cells.length + 1), 0, {
            ...(file.nbformat_minor >= 5 ? { id: `made-${this.#written}` } : {}),
            cell_type: 'markdown',
            metadata: {},
            source: [this.#line('file made')],
          })
        })
      case 'file delete':
        return this.#change((file) => {
          const [gone] = file.cells.splice(step.at % Math.max(1, file.cells.length), 1)
          if (gone) this.#deleted(textOf(gone))
        })
      case 'file move':
        return this.#change((file) => {
          const [moved] = file.cells.splice(step.at % Math.max(1, file.cells.length), 1)
          if (moved) file.cells.push(moved)
        })
      case 'file layout':
        writeFileSync(this.path, JSON.stringify(this.#read(), null, this.#written % 4))
        return
      case 'file touched':
        writeFileSync(this.path, readFileSync(this.path))
        return
      case 'autosave':
        this.#clock.advance(11_000)
        await this.#ask('source_status', {})
        // Behind what autosave does: the line of the source takes one thing after the other.
        await this.#ask('reconcile_source', { keep: 'both' }).catch(() => {})
        return
      case 'save':
        await this.#ask('save', {}).catch(mayConflict)
        return
      case 'reconcile':
        await this.#ask('reconcile_source', { keep: 'both' })
        return
      case 'crash': {
        // The clock of what died stands still, so that it does nothing any more.
        this.#clock = new ManualClock(1_800_000_000_000)
        this.#rooms = this.#fixture.again(undefined, this.#clock)
        await this.attach()
        return
      }
    }
  }

  /** File and room as they are once everything is settled. */
  async settled(): Promise<{ room: string[]; file: string[] }> {
    for (let tries = 0; tries < 5; tries++) {
      await this.#ask('reconcile_source', { keep: 'both' })
      try {
        await this.#ask('save', {})
        break
      } catch (error) {
        mayConflict(error)
      }
    }
    return {
      room: (await this.#cells()).map(({ source }) => source),
      file: this.#read().cells.map(textOf),
    }
  }

  #ask(method: Parameters<AttachedPeer['request']>[0], args: unknown): Promise<unknown> {
    return this.#peer.request(method, args, this.#fixture.context())
  }

  /** false: the cell is in conflict, and nothing was written. */
  async #edit(operation: object): Promise<boolean> {
    const written = new Set(this.wanted)
    try {
      await this.#ask('edit', { operations: [operation] })
      return true
    } catch (error) {
      mayConflict(error)
      for (const line of this.wanted) if (!written.has(line)) this.wanted.delete(line)
      const source = 'source' in operation ? String(operation.source) : ''
      this.wanted.delete(source.split('\n').at(-1) ?? '')
      return false
    }
  }

  async #cells(): Promise<{ cell_id: string; source: string }[]> {
    const { cells } = (await this.#ask('get_cells', { start: 0, count: 1000 })) as {
      cells: { cell_id: string; source: string }[]
    }
    return cells
  }

  async #cell(at: number): Promise<{ cell_id: string; source: string } | undefined> {
    const cells = await this.#cells()
    return cells[at % Math.max(1, cells.length)]
  }

  #change(change: (file: File) => void): void {
    const file = this.#read()
    change(file)
    this.#store(file)
  }

  #read(): File {
    return JSON.parse(readFileSync(this.path, 'utf8')) as File
  }

  #store(file: File): void {
    writeFileSync(`${this.path}.new`, `${JSON.stringify(file, null, 1)}\n`)
    renameSync(`${this.path}.new`, this.path)
  }

  #line(what: string): string {
    const line = `${what} line ${this.#written++};`
    this.wanted.add(line)
    return line
  }

  #deleted(source: string): void {
    for (const line of source.split('\n')) this.wanted.delete(line)
  }
}

function textOf(cell: FileCell): string {
  return [cell.source].flat().join('')
}

function mayConflict(error: unknown): void {
  if ((error as { code?: string }).code !== 'source_conflict') throw error
}

test.each([true, false])('nothing is lost, in files with ids: %s', async (withIds) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 22 }), async (steps) => {
      const fixture = await makeRooms()
      try {
        const world = new World(fixture, withIds)
        await world.attach()
        for (const step of steps) await world.do(step)
        const { room, file } = await world.settled()
        expect(existsSync(world.path)).toBe(true)
        expect(file).toEqual(room)
        const text = file.join('\n')
        for (const line of world.wanted) expect(text).toContain(line)
      } finally {
        await fixture.dispose()
      }
    }),
    { numRuns: ROUNDS },
  )
})
