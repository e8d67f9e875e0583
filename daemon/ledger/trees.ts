/** Imports and exports: which folders, what is refused, and how a tree that is read becomes rows. */
import { readdirSync, statSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { ProcedureStore } from '../store/store.ts'
import type { LedgerParams, LedgerResult, LedgerSettings } from './call.ts'
import { isTree } from './tree/roots.ts'
import type { TreeThread } from './tree/tree-thread.ts'

/** Milliseconds that another writer of the tree may hold its claim. */
export const CLAIM_MS = 10_000
/** Warnings that are told. */
const WARNINGS = 1_000

export interface TreesOptions {
  readonly store: ProcedureStore
  readonly tree: TreeThread
  readonly settings: LedgerSettings
  /** Where copies of files go that cannot be read. */
  readonly quarantine: string
  /** Places to look in when none is named. */
  readonly usual: readonly string[]
  /** Epoch milliseconds. */
  readonly now: () => number
  readonly changed: (names: readonly string[]) => void
}

export async function importTrees(
  options: TreesOptions,
  { root }: LedgerParams<'session_import'>,
): Promise<LedgerResult<'session_import'>> {
  const { store, tree, settings, quarantine, usual, now, changed } = options
  const roots = root === undefined ? usual.filter(isTree) : [checkedRoot(root)]
  const sums = { imported: 0, updated: 0, unchanged: 0 }
  const warnings: string[] = []
  if (roots.length === 0) warnings.push(`no tree was found; looked in ${usual.join(', ')}`)
  const report = await tree.import(roots, quarantine, async (entries) => {
    const result = await store.transact('ledger_import', { entries, now: Math.round(now() * 1000), settings })
    sums.imported += result.imported
    sums.updated += result.updated
    sums.unchanged += result.unchanged
    warnings.push(...result.warnings)
    changed(result.changed)
  })
  const all = [...report.warnings, ...warnings]
  return {
    roots: [...roots],
    ...sums,
    quarantined: [...report.quarantined],
    warnings:
      all.length <= WARNINGS ? all : [...all.slice(0, WARNINGS), `… and ${all.length - WARNINGS} more`],
  }
}

function checkedRoot(root: string): string {
  checkPath(root)
  if (isTree(root)) return root
  throw new RoomdError(
    'not_found',
    `there is no tree of sessions in ${root}: it has none of .chain-index.json, .current-session.json, sessions/, .state/ and logs/sessions/`,
    { cause: { path: root } },
  )
}

export async function exportTree(
  { tree, settings }: TreesOptions,
  { dir, merge }: LedgerParams<'session_export'>,
): Promise<LedgerResult<'session_export'>> {
  checkPath(dir)
  const there = statSync(dir, { throwIfNoEntry: false })
  if (there && !there.isDirectory())
    throw new RoomdError('invalid_argument', `${dir} is no folder`, { cause: { path: dir } })
  if (there && !merge && readdirSync(dir).length > 0)
    throw new RoomdError(
      'conflict',
      `${dir} is not empty; name an empty or new folder, or merge into it with "--merge"`,
      { cause: { path: dir } },
    )
  const written = await tree.export(dir, { compat: settings.compat, claimMs: CLAIM_MS, merge })
  return { dir, ...written }
}

function checkPath(path: string): void {
  if (!isAbsolute(path) || path.includes('\0'))
    throw new RoomdError('invalid_argument', `the daemon needs an absolute path, not ${JSON.stringify(path)}`)
}
