import { describe, expect, it, onTestFinished } from 'vitest'
import { createDocument, loadDocument } from '../../daemon/documents/document.ts'
import { DocumentWorker } from '../../daemon/documents/document-worker.ts'
import { Journal, readJournal, SNAPSHOT_UPDATES, snapshotStatements } from '../../daemon/documents/journal.ts'
import type { Store } from '../../daemon/store/store.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { openTestStore, seqs, temporaryFolder } from '../store/opened.ts'
import { addRoom, ROOM } from '../store/statements.ts'
import { id, seen } from './mirror.ts'

const room = NotebookId.parse(ROOM)

async function setUp(): Promise<{ store: Store; journal: Journal }> {
  const file = `${temporaryFolder()}/roomd.db`
  const store = await openTestStore(file)
  const worker = new DocumentWorker(file)
  onTestFinished(() => worker.dispose())
  await store.write([addRoom()])
  return { store, journal: new Journal(store, worker, room) }
}

function newDocument() {
  return createDocument({
    nbformat: 4,
    nbformat_minor: 5,
    metadata: {},
    cells: [{ cell_id: id('c0'), cell_type: 'code', source: '', metadata: {} }],
  })
}

describe('the journal', () => {
  it('has nothing for a room without document', async () => {
    const { store } = await setUp()
    expect(readJournal(store, room)).toBeNull()
  })

  it('folds every so many updates into a snapshot, and loses none that come meanwhile', async () => {
    const { store, journal } = await setUp()
    const document = newDocument()
    let seq = 1
    const writes = [store.write(snapshotStatements(room, seq, document.updateSince()))]
    for (let i = 0; i < SNAPSHOT_UPDATES * 2 + 50; i++) {
      const { change } = document.apply([{ op: 'set_source', cell_id: id('c0'), source: `x = ${i}\n` }])
      if (change === null) continue
      writes.push(store.write(journal.append(++seq, change.update, 'test', 1)))
      // As in life: commits and turns of the loop in between.
      if (i % 100 === 0) await Promise.all(writes)
    }
    await Promise.all(writes)
    await journal.settled()
    const tail = seqs(store)
    expect(tail.length).toBeLessThan(SNAPSHOT_UPDATES)
    const stored = readJournal(store, room)
    expect(stored?.doc_seq).toBe(seq)
    if (stored === null) throw new Error('the journal is empty')
    const loaded = loadDocument(stored)
    expect(seen(loaded)).toEqual(seen(document))
    expect(loaded.incomplete).toBe(false)
    // A rebuilt journal counts on.
    const again = new Journal(store, new DocumentWorker('unused'), room)
    expect(again.due).toBe(false)
  })

  it('takes a small document as it is for the snapshot, in the unit of the update that made it due', async () => {
    const { store, journal } = await setUp()
    const document = newDocument()
    let seq = 1
    await store.write(snapshotStatements(room, seq, document.updateSince()))
    for (let i = 0; i < SNAPSHOT_UPDATES * 2 + 10; i++) {
      const { change } = document.apply([{ op: 'set_source', cell_id: id('c0'), source: `x = ${i}\n` }])
      if (change === null) continue
      const rows = journal.append(++seq, change.update, 'test', 1, () => document.whole())
      const due = (seq - 1) % SNAPSHOT_UPDATES === 0
      expect(rows.length > 1).toBe(due)
      const written = store.write(rows)
      if (!due) continue
      await written
      expect(seqs(store)).toEqual([])
      const stored = readJournal(store, room)
      expect(stored?.doc_seq).toBe(seq)
      expect(stored && seen(loadDocument(stored))).toEqual(seen(document))
    }
    await store.settled()
    expect(seqs(store)).toHaveLength(10)
    const stored = readJournal(store, room)
    const loaded = stored && loadDocument(stored)
    expect(loaded && seen(loaded)).toEqual(seen(document))
    // What it was is not forgotten: an update that breaks the layout is still taken back.
    expect(() => document.applyUpdate(new Uint8Array([1, 1, 7, 0, 1]))).toThrow()
    expect(seen(document)).toEqual(loaded && seen(loaded))
  })

  it('leaves a document of many items to the worker', () => {
    const cells = Array.from({ length: 4000 }, (_, i) => ({
      cell_id: id(`c${i}`),
      cell_type: 'code',
      source: 'x',
      metadata: {},
    }))
    const large = createDocument({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells })
    expect(large.whole()).toBeNull()
  })

  it('folds many bytes sooner', async () => {
    const { store, journal } = await setUp()
    const document = newDocument()
    await store.write(snapshotStatements(room, 1, document.updateSince()))
    for (let i = 0; i < 12; i++) {
      const source = String.fromCharCode(97 + i).repeat(100_000)
      const { change } = document.apply([{ op: 'set_source', cell_id: id('c0'), source }])
      if (change) await store.write(journal.append(i + 2, change.update, 'test', 1))
    }
    await journal.settled()
    expect(seqs(store).length).toBeLessThan(12)
    const stored = readJournal(store, room)
    expect(stored && seen(loadDocument(stored))).toEqual(seen(document))
  })

  it('never lets an older snapshot replace a newer one', async () => {
    const { store } = await setUp()
    const document = newDocument()
    const first = document.updateSince()
    document.apply([{ op: 'set_source', cell_id: id('c0'), source: 'newer' }])
    await store.write(snapshotStatements(room, 5, document.updateSince()))
    await store.write(snapshotStatements(room, 3, first))
    const stored = readJournal(store, room)
    expect(stored?.doc_seq).toBe(5)
    expect(stored && loadDocument(stored).cell(id('c0'))?.source).toBe('newer')
  })
})
