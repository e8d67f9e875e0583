/**
 * A ledger over a real store in a temporary folder, with a clock that stands still until it is moved. Calls go through the schemas of
 * the protocol, as a request does.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { onTestFinished } from 'vitest'
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
  readonly folder?: string
}

export async function openTestLedger(options: TestLedgerOptions = {}): Promise<TestLedger> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'roomd-ledger-'))
  const tree = join(folder, 'tree')
  const settings = Settings.parse({ ledger: options.settings ?? {} }).ledger
  const log = pino({ level: 'silent' })
  const clock = { now: () => test.now, after: () => () => {} }
  const open = async () => {
    const store = await openStore({ file: join(folder, 'roomd.db'), log })
    const mutations = new Mutations(store, clock)
    const ledger = new Ledger({
      store,
      mutations,
      clock,
      log,
      settings,
      spool: join(folder, 'spool'),
      usualRoots: [tree],
      quarantine: join(folder, 'quarantine'),
      storeFile: join(folder, 'roomd.db'),
    })
    return { store, ledger }
  }
  let opened: Awaited<ReturnType<typeof open>>
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
      await close()
      opened = await open()
    },
  }
  const close = async (): Promise<void> => {
    await opened.ledger.dispose()
    await opened.store.close()
  }
  opened = await open()
  onTestFinished(async () => {
    await close()
    rmSync(folder, { recursive: true, force: true })
  })
  return test
}
