/** The ledger of a daemon: where its files lie, and which trees it looks into. */
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Settings } from '../../protocol/config.ts'
import type { Places } from '../../protocol/places.ts'
import type { Mutations } from '../rooms/mutations.ts'
import type { ProcedureStore } from '../store/store.ts'
import { Ledger } from './ledger.ts'
import { usualRoots } from './tree/roots.ts'

export function openLedger(of: {
  readonly store: ProcedureStore
  readonly mutations: Mutations
  readonly clock: Clock
  readonly log: Logger
  readonly settings: Settings
  readonly places: Places
  readonly storeFile: string
}): Ledger {
  const { storeFile, store, mutations, clock, log, settings, places } = of
  return new Ledger({
    store,
    mutations,
    clock,
    log: log.child({ part: 'ledger' }),
    settings: settings.ledger,
    spool: places.hookSpool,
    usualRoots: usualRoots(process.env),
    quarantine: join(places.data, 'ledger-quarantine'),
    storeFile,
  })
}
