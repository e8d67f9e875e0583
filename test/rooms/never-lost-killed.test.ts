/**
 * The same promise as in never-lost.test.ts against a real daemon that is killed with SIGKILL in the middle of edits, autosaves and
 * changes of the file by another program: no line that was acknowledged, or that stood in the file, is ever lost, and none is there
 * twice. Every written line is unique. ROOMD_TEST_ROUNDS plays more rounds.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Client, connect, type Room } from '../../client/sdk/index.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { type TestHome, withHome } from '../support/home.ts'
import { until } from '../support/until.ts'

const ROUNDS = Number(process.env.ROOMD_TEST_ROUNDS ?? 1)
/** Edits that are under way when the daemon is killed. */
const AT_ONCE = 8

type Step =
  | { readonly kind: 'room append' | 'room create' | 'file append' | 'file create'; readonly at: number }
  | { readonly kind: 'save' | 'kill' | 'kill while saving' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'room append' as const,
        'room create' as const,
        'file append' as const,
        'file create' as const,
      ),
      at: fc.nat(6),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('save' as const, 'kill' as const, 'kill while saving' as const),
    }),
  },
)
/** With two kills at least, whatever else. */
const steps = fc
  .tuple(fc.array(step, { minLength: 2, maxLength: 6 }), fc.array(step, { minLength: 2, maxLength: 6 }))
  .map(([one, two]): Step[] => [...one, { kind: 'kill' }, ...two, { kind: 'kill while saving' }])

interface FileCell {
  id: string
  cell_type: string
  metadata: object
  source: string | string[]
  outputs?: object[]
  execution_count?: number | null
}

class World {
  readonly #home: TestHome
  readonly #path: string
  #daemon!: TestDaemon
  #client!: Client
  #room!: Room
  #written = 0
  readonly wanted = new Set<string>()

  constructor(home: TestHome) {
    this.#home = home
    this.#path = join(home.work, 'a.ipynb')
    const cells = ['first', 'second', 'third'].map((name, i) => ({
      id: `cell-${i}`,
      cell_type: 'code',
      metadata: {},
      source: this.#line(name),
      outputs: [],
      execution_count: null,
    }))
    this.#store({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 })
  }

  async begin(): Promise<void> {
    this.#daemon = await startDaemon(this.#home)
    this.#client = await connect({ env: this.#home.env, label: 'test', waitMs: 60_000 })
    this.#room = await this.#client.openRoom({ path: this.#path })
  }

  async do(step: Step): Promise<void> {
    switch (step.kind) {
      case 'room append':
        return this.#append(step.at)
      case 'room create':
        await this.#room.createCell({ source: this.#line('room made') })
        return
      case 'file append':
        return this.#change((cells) => {
          const cell = cells[step.at % Math.max(1, cells.length)]
          if (cell) cell.source = `${[cell.source].flat().join('')}\n${this.#line('file')}`
        })
      case 'file create':
        return this.#change((cells) => {
          const source = [this.#line('file made')]
          const made = { id: `made-${this.#written}`, cell_type: 'markdown', metadata: {}, source }
          cells.splice(step.at % (cells.length + 1), 0, made)
        })
      case 'save':
        await this.#room.save().catch(mayConflict)
        return
      case 'kill':
        return this.#kill(() => {})
      case 'kill while saving':
        return this.#kill(() => void this.#room.save().catch(() => {}))
    }
  }

  /** Room and file once everything is settled. */
  async settled(): Promise<{ room: string[]; file: string[] }> {
    for (let tries = 0; tries < 5; tries++) {
      await this.#room.call('reconcile_source', { keep: 'both' })
      try {
        await this.#room.save()
        break
      } catch (error) {
        mayConflict(error)
      }
    }
    const { cells } = await this.#room.call('get_cells', { start: 0, count: 1000 })
    const file = this.#read().cells.map((cell) => [cell.source].flat().join(''))
    await this.#client.close()
    return { room: cells.map((cell) => cell.source), file }
  }

  /** Edits are on their way, answered or not, when it dies. Each is acknowledged in the end: by this daemon or the next. */
  async #kill(also: () => void): Promise<void> {
    const edits = Array.from({ length: AT_ONCE }, () =>
      this.#room.createCell({ source: this.#line('in flight') }),
    )
    const first = Promise.race(edits)
    also()
    // Some are acknowledged, some are not.
    await first
    await this.#daemon.kill9()
    this.#daemon = await startDaemon(this.#home)
    await Promise.all(edits)
    await until('the room to be there again', () => this.#room.state.readiness.document === 'interactive')
  }

  async #append(at: number): Promise<void> {
    const { cells } = this.#room.state
    const cell = cells[at % Math.max(1, cells.length)]
    if (!cell) return
    const line = this.#line('room')
    try {
      await this.#room.setSource(cell.cell_id, `${cell.source}\n${line}`, {
        expectSourceHash: cell.source_hash,
      })
    } catch (error) {
      // In conflict, or changed by the file meanwhile: nothing was written.
      if (!['source_conflict', 'conflict', 'not_found'].includes(codeOf(error))) throw error
      this.wanted.delete(line)
    }
  }

  /** As a careful program does it: not over what the daemon has saved since it read. */
  #change(change: (cells: FileCell[]) => void): void {
    const before = readFileSync(this.#path, 'utf8')
    const file = JSON.parse(before) as { cells: FileCell[] }
    change(file.cells)
    writeFileSync(`${this.#path}.new`, `${JSON.stringify(file, null, 1)}\n`)
    // All is prepared: between this look and the replacing there is no time in which the daemon might save.
    if (readFileSync(this.#path, 'utf8') === before) renameSync(`${this.#path}.new`, this.#path)
    else this.#change(change)
  }

  #read(): { cells: FileCell[] } {
    return JSON.parse(readFileSync(this.#path, 'utf8'))
  }

  #store(file: object): void {
    writeFileSync(`${this.#path}.new`, `${JSON.stringify(file, null, 1)}\n`)
    renameSync(`${this.#path}.new`, this.#path)
  }

  #line(what: string): string {
    const line = `${what} line ${this.#written++};`
    this.wanted.add(line)
    return line
  }
}

const codeOf = (error: unknown): string => String((error as { code?: unknown }).code)

function mayConflict(error: unknown): void {
  if (codeOf(error) !== 'source_conflict') throw error
}

test('nothing that was acknowledged is lost, however often the daemon is killed', {
  timeout: 120_000 * ROUNDS,
}, async () => {
  await fc.assert(
    fc.asyncProperty(steps, (todo) =>
      withHome(async (home) => {
        const world = new World(home)
        await world.begin()
        for (const one of todo) await world.do(one)
        const { room, file } = await world.settled()
        expect(file).toEqual(room)
        const lines = file.join('\n').split('\n')
        for (const line of world.wanted) expect(lines).toContain(line)
        const created = lines.filter((line) => line.startsWith('in flight'))
        expect(new Set(created).size).toBe(created.length)
      }),
    ),
    { numRuns: ROUNDS, endOnFailure: true },
  )
})
