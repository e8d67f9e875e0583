/**
 * Copies what can be read of a damaged database into a new one, table by table and row by row.
 *
 * A damaged page ends a scan. So a table is read from its start, then from its end, and then once more per room or execution
 * that is known, each from both sides: what is lost is what lies on damaged pages, not what lies behind them. A destroyed first
 * page (header and schema) is replaced by the one a new store of the same schema has: migrations place tables alike.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'
import Database from 'better-sqlite3'
import type { SqlValue } from './store.ts'

interface Table {
  readonly name: string
  readonly columns: readonly string[]
  readonly key: readonly string[]
}

/** Tables in whose key another table's id comes first: where to look when both ends of a scan are cut off. */
const owners: readonly { column: string; table: string }[] = [
  { column: 'notebook_id', table: 'rooms' },
  { column: 'execution_id', table: 'executions' },
  { column: 'session_key', table: 'ledger_sessions' },
]

/** `into`: a new, migrated database. Returns how much came over, and the tables that have holes. */
export function salvage(source: string, into: Database.Database): { rows: number; holes: string[] } {
  into.pragma('foreign_keys = OFF')
  const patched = `${into.name}-source`
  const damaged = openDamaged(source, patched, into.name)
  const holes: string[] = []
  try {
    into.exec('BEGIN')
    if (damaged === null) holes.push('every table')
    else {
      for (const table of tablesOf(into)) if (!copyTable(damaged, into, table)) holes.push(table.name)
    }
    reconnect(into)
    rebuildIndexes(into)
    into.exec('COMMIT')
  } finally {
    damaged?.close()
    for (const rest of ['', '-wal', '-shm']) rmSync(`${patched}${rest}`, { force: true })
  }
  const rows = tablesOf(into).reduce((sum, { name }) => sum + count(into, name), 0)
  return { rows, holes }
}

function openDamaged(source: string, patched: string, fresh: string): Database.Database | null {
  const plain = tryOpen(source)
  if (plain) return plain
  // First only the header, then the whole first page.
  for (const bytes of [100, 4096]) {
    copyFileSync(source, patched)
    if (existsSync(`${source}-wal`)) copyFileSync(`${source}-wal`, `${patched}-wal`)
    transplant(fresh, patched, bytes)
    const opened = tryOpen(patched)
    if (opened) return opened
    rmSync(`${patched}-shm`, { force: true })
  }
  return null
}

function tryOpen(file: string): Database.Database | null {
  let db: Database.Database | null = null
  try {
    db = new Database(file, { readonly: true, fileMustExist: true })
    // Cells that SQLite would call impossible are read as far as they go.
    db.pragma('cell_size_check = OFF')
    db.prepare('SELECT count(*) FROM sqlite_schema').get()
    return db
  } catch {
    // Unreadable in this form; the caller tries the next.
    db?.close()
    return null
  }
}

/** Puts the first bytes of a sound database over those of a copy of the damaged one, with the copy's own number of pages. */
function transplant(from: string, to: string, bytes: number): void {
  const page = Buffer.alloc(bytes)
  const source = openSync(from, 'r')
  try {
    readSync(source, page, 0, bytes, 0)
  } finally {
    closeSync(source)
  }
  const target = openSync(to, 'r+')
  try {
    const pageSize = page.readUInt16BE(16) === 1 ? 65536 : page.readUInt16BE(16)
    page.writeUInt8(2, 18) // written and read with a write-ahead log
    page.writeUInt8(2, 19)
    page.writeUInt32BE(Math.floor(fstatSync(target).size / pageSize), 28)
    page.writeUInt32BE(0, 32) // free pages are not looked at
    page.writeUInt32BE(0, 36)
    page.copy(page, 92, 24, 28) // the page count is valid for this change counter
    writeSync(target, page, 0, bytes, 0)
  } finally {
    closeSync(target)
  }
}

function tablesOf(db: Database.Database): Table[] {
  const names = db
    .prepare<[], { name: string }>(
      // Full text indexes (virtual tables and what they keep) are made anew from the tables that they index.
      `SELECT name FROM sqlite_schema JOIN pragma_table_list USING (name)
       WHERE sqlite_schema.type = 'table' AND pragma_table_list.type = 'table' AND schema = 'main' AND name NOT LIKE 'sqlite_%'
       ORDER BY sqlite_schema.rowid`,
    )
    .all()
  return names.map(({ name }) => {
    const info = db
      .prepare<[string], { name: string; pk: number }>('SELECT name, pk FROM pragma_table_info(?)')
      .all(name)
    return {
      name,
      columns: info.map((column) => column.name),
      key: info
        .filter((column) => column.pk > 0)
        .sort((a, b) => a.pk - b.pk)
        .map((column) => column.name),
    }
  })
}

/** Returns whether every row was read. */
function copyTable(from: Database.Database, into: Database.Database, table: Table): boolean {
  const present = columnsIn(from, table)
  if (present === null) return false
  if (present.length === 0) return true // an older schema without this table
  const columns = present.map(quote).join(', ')
  const insert = into.prepare(
    `INSERT OR IGNORE INTO ${quote(table.name)} (${columns}) VALUES (${present.map(() => '?').join(', ')})`,
  )
  const base = `SELECT ${columns} FROM ${quote(table.name)}`
  const scan = (rest: string, ...values: SqlValue[]): boolean =>
    copyRows(from, insert, `${base} ${rest}`, values)
  const order = (way: 'ASC' | 'DESC'): string =>
    `ORDER BY ${table.key.map((k) => `${quote(k)} ${way}`).join(', ')}`

  if (scan('NOT INDEXED')) return true
  scan(order('ASC'))
  scan(order('DESC'))
  const owner = owners.find((o) => o.column === table.key[0] && o.table !== table.name)
  if (owner && table.key.length > 1) {
    const ids = into.prepare<[], { id: string }>(`SELECT ${owner.column} AS id FROM ${owner.table}`).all()
    for (const { id } of ids) {
      const where = `WHERE ${quote(owner.column)} = ?`
      if (!scan(`${where} ${order('ASC')}`, id)) scan(`${where} ${order('DESC')}`, id)
    }
  }
  return false
}

/** null: the table cannot be read at all. */
function columnsIn(from: Database.Database, table: Table): string[] | null {
  try {
    const info = from
      .prepare<[string], { name: string }>('SELECT name FROM pragma_table_info(?)')
      .all(table.name)
    const has = new Set(info.map((column) => column.name))
    return table.columns.filter((column) => has.has(column))
  } catch {
    // A damaged schema: this table's description is gone.
    return null
  }
}

/** Returns false when damage ended the scan. A row that the new table refuses is damage too, and is left out alone. */
function copyRows(
  from: Database.Database,
  insert: Database.Statement,
  sql: string,
  values: readonly SqlValue[],
): boolean {
  let whole = true
  try {
    const select = from.prepare(sql).raw(true).safeIntegers(true)
    for (const row of select.iterate(...values) as IterableIterator<SqlValue[]>) {
      try {
        insert.run(row)
      } catch {
        whole = false
      }
    }
    return whole
  } catch {
    // The scan met a damaged page; the caller goes on from another side.
    return false
  }
}

/** Makes the parts fit again: documents whose room row is lost get a new one; what belongs to nothing goes. */
function reconnect(db: Database.Database): void {
  const now = Date.now()
  db.prepare(
    `INSERT OR IGNORE INTO rooms (notebook_id, kind, title, working_dir, created_at, touched_at)
     SELECT notebook_id, 'standalone', 'Recovered notebook', '', ?, ? FROM (
       SELECT notebook_id FROM doc_snapshots UNION SELECT notebook_id FROM doc_slices UNION
       SELECT notebook_id FROM doc_updates)`,
  ).run(now, now)
  // The snapshot that slices belong to covers what came before the updates that are left.
  db.exec(`
    INSERT INTO doc_snapshots (notebook_id, doc_seq, body)
    SELECT notebook_id, coalesce(
        (SELECT min(doc_seq) - 1 FROM doc_updates u WHERE u.notebook_id = s.notebook_id),
        (SELECT doc_seq FROM rooms r WHERE r.notebook_id = s.notebook_id)), x''
    FROM (SELECT DISTINCT notebook_id FROM doc_slices) s
    WHERE notebook_id NOT IN (SELECT notebook_id FROM doc_snapshots)`)
  // Counters are never behind the rows that they count: numbers would be used twice.
  db.exec(`
    UPDATE rooms SET
      doc_seq = max(doc_seq,
        coalesce((SELECT max(doc_seq) FROM doc_updates u WHERE u.notebook_id = rooms.notebook_id), 0),
        coalesce((SELECT doc_seq FROM doc_snapshots s WHERE s.notebook_id = rooms.notebook_id), 0)),
      event_seq = max(event_seq,
        coalesce((SELECT max(event_seq) FROM events e WHERE e.notebook_id = rooms.notebook_id), 0))`)
  for (;;) {
    const orphans = db
      .prepare<[], { table: string; parent: string; fkid: number }>('PRAGMA foreign_key_check')
      .all()
    const [first] = orphans
    if (first === undefined) return
    const link = db
      .prepare<[string, number], { from: string }>(
        'SELECT "from" FROM pragma_foreign_key_list(?) WHERE id = ?',
      )
      .get(first.table, first.fkid)
    const parentKey = tablesOf(db).find((table) => table.name === first.parent)?.key[0]
    if (link === undefined || parentKey === undefined) return
    db.exec(
      `DELETE FROM ${quote(first.table)} WHERE ${quote(link.from)} NOT IN (SELECT ${quote(parentKey)} FROM ${quote(first.parent)})`,
    )
  }
}

function rebuildIndexes(db: Database.Database): void {
  const indexes = db
    .prepare<[], { name: string }>(
      "SELECT name FROM pragma_table_list WHERE type = 'virtual' AND schema = 'main'",
    )
    .all()
  for (const { name } of indexes) db.exec(`INSERT INTO ${quote(name)} (${quote(name)}) VALUES ('rebuild')`)
}

function count(db: Database.Database, table: string): number {
  return Number(db.prepare<[], { n: number }>(`SELECT count(*) AS n FROM ${quote(table)}`).get()?.n ?? 0)
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
