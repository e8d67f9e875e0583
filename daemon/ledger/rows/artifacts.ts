/**
 * Bodies that are kept under a kind, project and name: what session_save wrote, and files of an imported tree. The version before
 * goes to the history: the newest few stay there, and every one that was archived.
 */
import type { Reader, Transaction } from '../../store/transaction.ts'
import { must } from './sessions.ts'

export type ArtifactKind = 'state' | 'summary' | 'context' | 'finalized' | 'flow_trace'

export interface ArtifactRow {
  readonly artifact_key: number
  readonly kind: ArtifactKind
  readonly project: string
  readonly name: string
  readonly session_key: number | null
  readonly body: Uint8Array
  readonly modified_us: number
  readonly recovered: string | null
  readonly rev: number
}

/** Earlier versions that are kept besides the archived ones. */
const KEPT_VERSIONS = 5

export function findArtifact(
  reader: Reader,
  kind: ArtifactKind,
  project: string,
  name: string,
): ArtifactRow | undefined {
  return reader.get<ArtifactRow>(
    'SELECT * FROM ledger_artifacts WHERE kind = ? AND project = ? AND name = ?',
    kind,
    project,
    name,
  )
}

export function artifactsOf(reader: Reader, sessionKey: number, kind: ArtifactKind): ArtifactRow[] {
  return reader.all<ArtifactRow>(
    'SELECT * FROM ledger_artifacts WHERE session_key = ? AND kind = ? ORDER BY modified_us DESC',
    sessionKey,
    kind,
  )
}

export const bodyText = (row: Pick<ArtifactRow, 'body'>): string => Buffer.from(row.body).toString('utf8')

export interface NewArtifact {
  readonly kind: ArtifactKind
  readonly project: string
  readonly name: string
  readonly session_key: number | null
  readonly body: Uint8Array
  readonly modified_us: number
  readonly recovered?: string | null
}

/** `archived`: the version that stands now was archived, and is kept for good. Returns whether anything changed. */
export function putArtifact(
  transaction: Transaction,
  made: NewArtifact,
  options: { archived?: boolean } = {},
): boolean {
  const present = findArtifact(transaction, made.kind, made.project, made.name)
  if (!present) {
    transaction.run(
      `INSERT INTO ledger_artifacts (kind, project, name, session_key, body, modified_us, recovered)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      made.kind,
      made.project,
      made.name,
      made.session_key,
      made.body,
      made.modified_us,
      made.recovered ?? null,
    )
    return true
  }
  const same = Buffer.compare(present.body, made.body) === 0
  if (same && present.modified_us === made.modified_us && !options.archived) return false
  if (!same || options.archived) keepVersion(transaction, present, options.archived === true)
  transaction.run(
    `UPDATE ledger_artifacts SET session_key = ?, body = ?, modified_us = ?, recovered = ?, rev = rev + 1
     WHERE artifact_key = ?`,
    made.session_key,
    made.body,
    made.modified_us,
    made.recovered ?? null,
    present.artifact_key,
  )
  return true
}

export function removeArtifact(transaction: Transaction, sessionKey: number, kind: ArtifactKind): void {
  transaction.run('DELETE FROM ledger_artifacts WHERE session_key = ? AND kind = ?', sessionKey, kind)
}

/** An archived version of an imported tree whose name has a live one too. */
export function keepVersion(
  transaction: Transaction,
  row: Pick<ArtifactRow, 'artifact_key' | 'rev' | 'body' | 'modified_us'>,
  archived: boolean,
): void {
  transaction.run(
    `INSERT INTO ledger_artifact_history (artifact_key, rev, body, modified_us, archived) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
    row.artifact_key,
    row.rev,
    row.body,
    row.modified_us,
    archived ? 1 : 0,
  )
  transaction.run(
    `DELETE FROM ledger_artifact_history WHERE artifact_key = ? AND archived = 0 AND rev <= ?`,
    row.artifact_key,
    row.rev - KEPT_VERSIONS,
  )
}

export function mustFindArtifact(
  reader: Reader,
  kind: ArtifactKind,
  project: string,
  name: string,
): ArtifactRow {
  return must(findArtifact(reader, kind, project, name))
}
