/**
 * Takes entries of a tree into the ledger. The same entry again changes nothing. A session that nobody changed here since its last
 * import becomes what the tree says; one that was changed here only gains what it lacks.
 */
import type { Transaction } from '../../store/transaction.ts'
import type { LedgerSettings } from '../call.ts'
import { findArtifact, putArtifact } from '../rows/artifacts.ts'
import { clientScope, point } from '../rows/pointers.ts'
import { findSession } from '../rows/sessions.ts'
import type { ImportEntry } from '../tree/entry.ts'
import { type ImportOutcome, importSession } from './import-session.ts'

export interface ImportInput {
  readonly entries: readonly ImportEntry[]
  /** UTC microseconds. */
  readonly now: number
  readonly settings: LedgerSettings
}

export interface ImportResult {
  readonly imported: number
  readonly updated: number
  readonly unchanged: number
  readonly warnings: readonly string[]
  readonly changed: readonly string[]
}

export function importEntries(
  transaction: Transaction,
  { entries, now, settings }: ImportInput,
): ImportResult {
  const count = { imported: 0, updated: 0, unchanged: 0 }
  const warnings: string[] = []
  const changed: string[] = []
  for (const entry of entries) {
    if (entry.kind === 'pointer') {
      takePointer(transaction, entry.sessionId, now)
      continue
    }
    const outcome = isKnown(transaction, entry)
      ? 'unchanged'
      : entry.kind === 'state'
        ? importState(transaction, entry)
        : importSession(transaction, entry, { now, settings, warn: (text) => warnings.push(text) })
    count[outcome]++
    if (outcome !== 'unchanged')
      changed.push(entry.kind === 'state' ? `state ${entry.project}` : entry.sessionId)
    transaction.run(
      `INSERT INTO ledger_imports (path, sha256, at_us, outcome, detail) VALUES (?, ?, ?, 'imported', '[]')
       ON CONFLICT (path) DO UPDATE SET sha256 = excluded.sha256, at_us = excluded.at_us WHERE sha256 <> excluded.sha256`,
      entry.place,
      entry.sha256,
      now,
    )
  }
  return { ...count, warnings, changed }
}

/** Read before, the same, and still here. */
function isKnown(transaction: Transaction, entry: ImportEntry): boolean {
  const known = transaction.get<{ sha256: string }>(
    'SELECT sha256 FROM ledger_imports WHERE path = ?',
    entry.place,
  )
  if (known?.sha256 !== entry.sha256) return false
  switch (entry.kind) {
    case 'session':
      return findSession(transaction, entry.sessionId) !== undefined
    case 'state':
      return findArtifact(transaction, 'state', entry.project, '') !== undefined
    case 'pointer':
      return false
  }
}

function importState(
  transaction: Transaction,
  entry: Extract<ImportEntry, { kind: 'state' }>,
): ImportOutcome {
  const present = findArtifact(transaction, 'state', entry.project, '')
  // A state that was saved here since is newer.
  if (present && present.modified_us > entry.modifiedUs) return 'unchanged'
  const changed = putArtifact(transaction, {
    kind: 'state',
    project: entry.project,
    name: '',
    session_key: null,
    body: Buffer.from(entry.body),
    modified_us: entry.modifiedUs,
    recovered: entry.recovered,
  })
  if (!changed) return 'unchanged'
  return present ? 'updated' : 'imported'
}

/** A pointer of a tree is nobody's client here; it is kept for exports. */
function takePointer(transaction: Transaction, sessionId: string, now: number): void {
  const row = findSession(transaction, sessionId)
  const scope = clientScope('import')
  if (!row) return
  const present = transaction.get(
    'SELECT 1 FROM ledger_pointers WHERE scope = ? AND session_key = ?',
    scope,
    row.session_key,
  )
  if (!present) point(transaction, scope, row.session_key, now)
}
