/**
 * Writes the reference's tree: its files, names, order of members, and times of files. Each file is complete before it has its name;
 * the chain index comes last. The two files that other writers share are replaced under their claim.
 */
import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { Reader } from '../../store/transaction.ts'
import { isJsonObject, type JsonObject } from '../lenient-json.ts'
import { fileIn, treeFile } from '../names.ts'
import { chainRecord, tagIndex } from '../render/chain-record.ts'
import { pythonJson } from '../render/python-json.ts'
import { summaryJson } from '../render/summary-json.ts'
import { summaryMarkdown } from '../render/summary-markdown.ts'
import { type ArtifactRow, artifactsOf, bodyText } from '../rows/artifacts.ts'
import { findSession, type SessionRow } from '../rows/sessions.ts'
import { eventsOf, trackerLine } from '../rows/tool-events.ts'
import { totalsOf } from '../rows/totals.ts'
import { indexAt, mergedTags, withoutSessions } from './chain-index.ts'
import { withClaim } from './claim.ts'

export interface TreeOptions {
  readonly compat: boolean
  /** Milliseconds to wait for another writer's claim. */
  readonly claimMs: number
  /** Keep what an index that is there already has beside ours. */
  readonly merge: boolean
}

export interface Written {
  sessions: number
  files: number
}

export class TreeWriter {
  readonly #reader: Reader
  readonly #root: string
  readonly #options: TreeOptions
  readonly #known: Map<string, string>
  files = 0

  /**
   * `known`: digests of the records that the index of this tree was last written with, by session; kept up to date. An index that would
   * say the same is not written again.
   */
  constructor(reader: Reader, root: string, options: TreeOptions, known?: Map<string, string>) {
    this.#reader = reader
    this.#root = root
    this.#options = options
    this.#known = known ?? new Map()
  }

  /** Everything. `gone`: ids of sessions that are no more, and leave the index too. */
  all(gone: readonly string[] = []): Written {
    let sessions = 0
    // In portions: a row at a time would leave a read transaction open over all of it.
    for (let after = 0; ; ) {
      const rows = this.#reader.all<SessionRow>(
        'SELECT * FROM ledger_sessions WHERE session_key > ? ORDER BY session_key LIMIT 500',
        after,
      )
      if (rows.length === 0) break
      for (const row of rows) this.session(row)
      sessions += rows.length
      after = rows.at(-1)?.session_key ?? after
    }
    for (const { project } of this.#reader.all<{ project: string }>(
      "SELECT project FROM ledger_artifacts WHERE kind = 'state'",
    ))
      this.state(project)
    this.pointer()
    this.#known.clear()
    this.index(gone)
    return { sessions, files: this.files }
  }

  session(row: SessionRow): void {
    for (const saved of artifactsOf(this.#reader, row.session_key, 'summary')) this.#saved(row, saved)
    for (const context of artifactsOf(this.#reader, row.session_key, 'context'))
      this.#write(treeFile.context(context.project, row.session_id), context.body, context.modified_us)
    this.#logs(row)
  }

  /** A session that is gone: its files too, in whatever project they were saved. */
  remove(sessionId: string): void {
    rmSync(join(this.#root, dirname(treeFile.log(sessionId, 'x'))), { recursive: true, force: true })
    const folders = [...this.#foldersIn('sessions'), ...this.#foldersIn(treeFile.archiveFolder)]
    for (const folder of folders)
      for (const file of [fileIn.saved(sessionId), fileIn.context(sessionId)])
        rmSync(join(this.#root, folder, file), { force: true })
  }

  #foldersIn(relative: string): string[] {
    const path = join(this.#root, relative)
    if (!existsSync(path)) return []
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(relative, entry.name))
  }

  state(project: string): void {
    const row = this.#reader.get<ArtifactRow>(
      "SELECT * FROM ledger_artifacts WHERE kind = 'state' AND project = ?",
      project,
    )
    if (row) this.#write(treeFile.state(project), row.body, row.modified_us)
  }

  /** The newest of all pointers: the reference has one. */
  pointer(): void {
    const row = this.#reader.get<Pick<SessionRow, 'session_id' | 'project' | 'created_text' | 'created_us'>>(
      `SELECT s.session_id, s.project, s.created_text, s.created_us FROM ledger_pointers p JOIN ledger_sessions s USING (session_key)
       WHERE p.scope NOT LIKE 'cleared %' ORDER BY p.set_us DESC LIMIT 1`,
    )
    if (!row) return
    const value = { current_session_id: row.session_id, project: row.project, created_at: row.created_text }
    this.#write(treeFile.current, Buffer.from(pythonJson(value)), row.created_us)
  }

  /** `changed`: sessions that may have other records than when the index was last written; absent: all. */
  index(gone: readonly string[] = [], changed?: readonly string[]): void {
    if (changed && gone.length === 0 && this.#known.size > 0 && changed.every((id) => this.#saysSame(id)))
      return
    for (const id of gone) this.#known.delete(id)
    const sessions: JsonObject = {}
    let newest = 0
    for (const row of this.#reader.all<SessionRow>(
      'SELECT * FROM ledger_sessions WHERE chained = 1 ORDER BY session_key',
    )) {
      const record = chainRecord(this.#reader, row)
      this.#known.set(row.session_id, digestOf(record))
      sessions[row.session_id] = record
      newest = Math.max(newest, row.updated_us)
    }
    try {
      this.#writeIndex(sessions, newest, gone)
    } catch (error) {
      this.#known.clear()
      throw error
    }
  }

  /** A change of who its children are is a change of theirs too. */
  #saysSame(sessionId: string): boolean {
    const row = findSession(this.#reader, sessionId)
    if (!row || row.chained === 0) return true
    return this.#known.get(sessionId) === digestOf(chainRecord(this.#reader, row))
  }

  #writeIndex(sessions: JsonObject, newest: number, gone: readonly string[]): void {
    const path = join(this.#root, treeFile.chain)
    mkdirSync(this.#root, { recursive: true })
    withClaim(path, this.#options.claimMs, () => {
      const there = this.#options.merge ? withoutSessions(indexAt(path), new Set(gone)) : null
      const index = {
        ...(there ?? {}),
        version: there?.version ?? '1.0.0',
        sessions: { ...(isJsonObject(there?.sessions) ? there.sessions : {}), ...sessions },
        tag_index: mergedTags(isJsonObject(there?.tag_index) ? there.tag_index : {}, tagIndex(this.#reader)),
      }
      this.#write(treeFile.chain, Buffer.from(pythonJson(index)), newest === 0 ? null : newest)
    })
  }

  #saved(row: SessionRow, saved: ArtifactRow): void {
    const live = treeFile.saved(saved.project, row.session_id)
    const archived = treeFile.archived(saved.project, row.session_id)
    const [here, away] = row.archived_us === null ? [live, archived] : [archived, live]
    const earlier = this.#reader.get<{ body: Uint8Array; modified_us: number }>(
      `SELECT body, modified_us FROM ledger_artifact_history WHERE artifact_key = ? AND archived = 1
       ORDER BY modified_us DESC LIMIT 1`,
      saved.artifact_key,
    )
    this.#write(here, saved.body, saved.modified_us)
    // A version that was archived before the session was worked on again lies in the archive still.
    if (here === live && earlier) this.#write(archived, earlier.body, earlier.modified_us)
    else rmSync(join(this.#root, away), { force: true })
  }

  #logs(row: SessionRow): void {
    const place = (name: string): string => treeFile.log(row.session_id, name)
    const totals = totalsOf(this.#reader, row.session_key)
    const at = totals?.updated_us ?? row.updated_us
    // A session of which nothing is known but its name leaves an empty one, or it would leave nothing.
    const summary = summaryJson(this.#reader, row) ?? (row.chained === 0 && !this.#isKept(row) ? {} : null)
    if (summary) {
      const path = join(this.#root, place('session-summary.json'))
      mkdirSync(dirname(path), { recursive: true })
      withClaim(path, this.#options.claimMs, () =>
        this.#write(place('session-summary.json'), Buffer.from(pythonJson(summary)), at),
      )
    }
    const [imported] = artifactsOf(this.#reader, row.session_key, 'finalized')
    const markdown = imported
      ? bodyText(imported)
      : row.finalized_us === null
        ? null
        : summaryMarkdown(this.#reader, row, this.#options)
    if (markdown !== null)
      this.#write(
        place('session-summary.md'),
        Buffer.from(markdown),
        imported?.modified_us ?? row.finalized_us,
      )
    const [trace] = artifactsOf(this.#reader, row.session_key, 'flow_trace')
    if (trace) this.#write(place('flow-trace.json'), trace.body, trace.modified_us)
    const events = eventsOf(this.#reader, row.session_key)
    if (events.length > 0)
      this.#write(place('tool-tracker.jsonl'), Buffer.from(`${events.map(trackerLine).join('\n')}\n`), at)
    else if (row.forgotten_events !== null)
      rmSync(join(this.#root, place('tool-tracker.jsonl')), { force: true })
  }

  #isKept(row: SessionRow): boolean {
    return (
      this.#reader.get('SELECT 1 FROM ledger_artifacts WHERE session_key = ? LIMIT 1', row.session_key) !==
      undefined
    )
  }

  /** `modifiedUs`: null, now. */
  #write(relative: string, body: Uint8Array, modifiedUs: number | null): void {
    const path = join(this.#root, relative)
    mkdirSync(dirname(path), { recursive: true })
    const fresh = `${path}.${process.pid}.roomd.tmp`
    try {
      const fd = openSync(fresh, 'w', 0o600)
      try {
        writeSync(fd, body)
        fsyncSync(fd)
      } finally {
        closeSync(fd)
      }
      if (modifiedUs !== null) utimesSync(fresh, modifiedUs / 1e6, modifiedUs / 1e6)
      renameSync(fresh, path)
      this.files++
    } catch (error) {
      rmSync(fresh, { force: true })
      throw error
    }
  }
}

function digestOf(record: JsonObject): string {
  return createHash('sha1').update(JSON.stringify(record)).digest('base64')
}
