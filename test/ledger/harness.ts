/**
 * A ledger over a real store in a temporary folder, with a clock that stands still until it is moved. Calls go through the schemas of
 * the protocol, as a request does.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, onTestFinished } from 'vitest'
import { Ledger } from '../../daemon/ledger/ledger.ts'
import { Mutations } from '../../daemon/rooms/mutations.ts'
import type { RequestContext } from '../../daemon/rooms/seam.ts'
import { openStore } from '../../daemon/store/open.ts'
import type { ProcedureStore } from '../../daemon/store/store.ts'
import { Settings } from '../../protocol/config.ts'
import { parseOutside } from '../../protocol/errors.ts'
import { ClientInstance, type MutationId } from '../../protocol/ids.ts'
import { type LedgerMethod, ledgerMethods } from '../../protocol/ledger.ts'
import type { MethodParams, MethodResult } from '../../protocol/methods.ts'

/** 2026-04-14 09:30:15.421083 local. */
export const T0 = new Date(2026, 3, 14, 9, 30, 15, 421).getTime() + 0.083

export interface TestLedger {
  readonly store: ProcedureStore
  readonly ledger: Ledger
  readonly folder: string
  /** A tree in which finalizing looks for traces and trackers. */
  readonly tree: string
  /** Epoch ms; may be set. */
  now: number
  /** Seconds on. */
  pass(seconds: number): void
  call<M extends LedgerMethod>(
    method: M,
    params: MethodParams<M>,
    options?: { mutationId?: number; instance?: string },
  ): Promise<MethodResult<M>>
  /** Number of rows. */
  count(table: string): number
  reopen(): Promise<void>
}

export interface TestLedgerOptions {
  readonly settings?: Partial<Settings['ledger']>
}

/** One store for the tests of a file: starting its writer takes longer than most tests. Each test finds it empty. */
let shared: { folder: string; store: ProcedureStore } | null = null
const log = pino({ level: 'silent' })

afterAll(async () => {
  await shared?.store.close()
  if (shared) rmSync(shared.folder, { recursive: true, force: true })
  shared = null
})

export async function openTestLedger(options: TestLedgerOptions = {}): Promise<TestLedger> {
  const settings = Settings.parse({ ledger: options.settings ?? {} }).ledger
  const clock = { now: () => test.now, after: () => () => {} }
  const { folder, store } = await emptyStore()
  const tree = join(folder, 'tree')
  let opened = { store, ledger: openLedger(store) }

  function openLedger(over: ProcedureStore): Ledger {
    return new Ledger({
      store: over,
      mutations: new Mutations(over, clock),
      clock,
      log,
      settings,
      spool: join(folder, 'spool'),
      usualRoots: [tree],
      quarantine: join(folder, 'quarantine'),
      storeFile: join(folder, 'roomd.db'),
    })
  }

  const test: TestLedger = {
    get store() {
      return opened.store
    },
    get ledger() {
      return opened.ledger
    },
    folder,
    tree,
    now: T0,
    pass(seconds) {
      test.now += seconds * 1000
    },
    async call(method, params, { mutationId, instance = 'test-instance' } = {}) {
      const args = parseOutside(ledgerMethods[method].params, params, method)
      const context: RequestContext = {
        identity: {
          connectionId: 'c1',
          clientInstance: ClientInstance.parse(instance),
          label: 'test',
          kind: 'mcp',
          scope: 'owner',
        },
        signal: new AbortController().signal,
        ...(mutationId === undefined ? {} : { mutationId: mutationId as MutationId }),
      }
      const value = await opened.ledger.request(method, args, context)
      return parseOutside(ledgerMethods[method].result, value, `${method} result`) as never
    },
    count(table) {
      return opened.store.get<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)?.n ?? 0
    },
    async reopen() {
      await opened.ledger.dispose()
      await opened.store.close()
      const again = await openStore({ file: join(folder, 'roomd.db'), log })
      shared = { folder, store: again }
      opened = { store: again, ledger: openLedger(again) }
    },
  }
  onTestFinished(() => opened.ledger.dispose())
  return test
}

async function emptyStore(): Promise<{ folder: string; store: ProcedureStore }> {
  if (!shared) {
    const folder = mkdtempSync(join(tmpdir(), 'roomd-ledger-'))
    shared = { folder, store: await openStore({ file: join(folder, 'roomd.db'), log }) }
    return shared
  }
  const { folder, store } = shared
  for (const name of ['tree', 'spool', 'quarantine'])
    rmSync(join(folder, name), { recursive: true, force: true })
  const tables = store.all<{ name: string }>(
    `SELECT name FROM pragma_table_list WHERE type = 'table' AND (name LIKE 'ledger%' OR name = 'mutations')
       AND schema = 'main' ORDER BY name IN ('ledger_sessions', 'ledger_tags')`,
  )
  await store.write(tables.map(({ name }) => ({ sql: `DELETE FROM ${name}`, values: [] })))
  return shared
}
