/**
 * Reads a tree of the reference as entries, one a session. Sessions are the union of what the chain index, the log folders, the saved
 * files and the pointer name. Variants of older programs are read too: an index without its dot, fields that are null or missing.
 */
import { join } from 'node:path'
import { nameFault } from '../grammar.ts'
import { isJsonObject, type JsonObject, parseLenient } from '../lenient-json.ts'
import { nameOfPart } from '../names.ts'
import { pythonJsonLine } from '../render/python-json.ts'
import { parseIso } from '../times.ts'
import type { ImportEntry, SavedFile, SessionEntry } from './entry.ts'
import type { TextFile, TreeFiles } from './tree-files.ts'

interface Index {
  readonly records: Map<string, JsonObject>
  readonly tags: Map<string, Array<{ tag: string; position: number }>>
  readonly modifiedUs: number
}

/** Files of one session outside its log folder. */
interface Kept {
  readonly saved: string[]
  readonly archived: string[]
  readonly contexts: string[]
}

type Projects = Map<string, Map<string, Kept>>

/** In the order of the index, then of names. */
export function* readTree(root: string, files: TreeFiles): Generator<ImportEntry> {
  const index = readIndex(root, files)
  files.takeDigest()
  const kept = keptFiles(root, files)
  const logs = new Map(
    files
      .names(join(root, 'logs', 'sessions'))
      .filter((name) => name !== 'flags' && files.isFolder(join(root, 'logs', 'sessions', name)))
      .map((name) => [nameOfPart(name), join(root, 'logs', 'sessions', name)]),
  )
  const ids = new Set([...index.records.keys(), ...index.tags.keys(), ...logs.keys()])
  for (const byId of kept.values()) for (const id of byId.keys()) ids.add(id)
  const began = childrenBegan(index)
  warnOfWrongChildren(index, files)
  for (const sessionId of ids) {
    const fault = nameFault(sessionId, 'the id')
    if (fault) {
      files.warn(`${root}: a session was left out: ${fault.error}`)
      continue
    }
    const entry = sessionEntry(sessionId, { index, kept, folder: logs.get(sessionId) ?? null, began }, files)
    const sha256 = files.takeDigest()
    // Nothing of it could be read but that there is a file: that is told, and no session is made up.
    if (isEmpty(entry) && !logs.has(sessionId)) continue
    yield { ...entry, place: `${root}#${sessionId}`, sha256 }
  }
  yield* states(root, files)
  const pointer = files.json(join(root, '.current-session.json'), { object: true })
  const current = pointer ? (parseLenient(pointer.text) as JsonObject).current_session_id : undefined
  if (typeof current === 'string' && current !== '' && !nameFault(current, 'the id'))
    yield {
      kind: 'pointer',
      sessionId: current,
      place: join(root, '.current-session.json'),
      sha256: files.takeDigest(),
    }
}

function isEmpty({ record, indexed, saved, archived, contexts }: SessionEntry): boolean {
  return record === null && indexed.length + saved.length + archived.length + contexts.length === 0
}

function readIndex(root: string, files: TreeFiles): Index {
  const records = new Map<string, JsonObject>()
  const buckets = new Map<string, Set<string>>()
  const add = (tag: string, id: unknown): void => {
    if (typeof id !== 'string') return
    const bucket = buckets.get(tag)
    if (bucket) bucket.add(id)
    else buckets.set(tag, new Set([id]))
  }
  let modifiedUs = 0
  for (const place of ['.chain-index.json', join('sessions', 'chain-index.json')]) {
    const file = files.json(join(root, place), { object: true })
    if (!file) continue
    modifiedUs = Math.max(modifiedUs, file.modifiedUs)
    const index = parseLenient(file.text) as JsonObject
    if (isJsonObject(index.sessions)) {
      for (const [id, record] of Object.entries(index.sessions)) {
        if (!isJsonObject(record))
          files.warn(`${join(root, place)}: the record of ${JSON.stringify(id)} is no object`)
        else if (!records.has(id)) records.set(id, record)
      }
    } else if (index.sessions !== undefined) files.warn(`${join(root, place)}: "sessions" is no object`)
    if (!isJsonObject(index.tag_index)) continue
    for (const [tag, ids] of Object.entries(index.tag_index))
      if (Array.isArray(ids)) for (const id of ids) add(tag, id)
  }
  // Tags that a record has and the index lacks come behind the others.
  for (const [id, { tags }] of records)
    if (Array.isArray(tags)) for (const tag of tags) if (typeof tag === 'string') add(tag, id)
  const tags: Index['tags'] = new Map()
  let position = 0
  for (const [tag, ids] of buckets)
    for (const id of ids) {
      const named = tags.get(id) ?? []
      named.push({ tag, position: position++ })
      tags.set(id, named)
    }
  return { records, tags, modifiedUs }
}

function childrenBegan({ records }: Index): Map<string, number> {
  const began = new Map<string, number>()
  for (const record of records.values()) {
    if (typeof record.parent !== 'string' || typeof record.created_at !== 'string') continue
    const at = parseIso(record.created_at)?.us
    if (at !== undefined) began.set(record.parent, Math.min(began.get(record.parent) ?? at, at))
  }
  return began
}

/** A child's own word counts. */
function warnOfWrongChildren({ records }: Index, files: TreeFiles): void {
  for (const [id, { children }] of records) {
    if (!Array.isArray(children)) continue
    for (const child of children) {
      const parent = typeof child === 'string' ? records.get(child)?.parent : undefined
      if (parent !== id)
        files.warn(`${id} lists ${JSON.stringify(child)} as a child, which does not name it as its parent`)
    }
  }
}

function keptFiles(root: string, files: TreeFiles): Projects {
  const projects: Projects = new Map()
  const collect = (folder: string, project: string, archived: boolean): void => {
    for (const name of files.names(folder)) {
      // Exactly one prefix: an id may begin with it again.
      const saved = /^session-(.+)\.md$/s.exec(name)?.[1]
      const context = archived ? undefined : /^context-(.+)\.json$/s.exec(name)?.[1]
      const id = saved ?? context
      if (id === undefined) continue
      const byId = projects.get(project) ?? new Map<string, Kept>()
      projects.set(project, byId)
      const kept = byId.get(nameOfPart(id)) ?? { saved: [], archived: [], contexts: [] }
      byId.set(nameOfPart(id), kept)
      const list = context !== undefined ? kept.contexts : archived ? kept.archived : kept.saved
      list.push(join(folder, name))
    }
  }
  const sessions = join(root, 'sessions')
  for (const name of files.names(sessions)) {
    const folder = join(sessions, name)
    if (name === '_archived')
      for (const project of files.names(folder)) collect(join(folder, project), nameOfPart(project), true)
    else if (files.isFolder(folder)) collect(folder, nameOfPart(name), false)
  }
  return projects
}

function sessionEntry(
  sessionId: string,
  found: {
    index: Index
    kept: Projects
    folder: string | null
    began: Map<string, number>
  },
  files: TreeFiles,
): SessionEntry {
  const { index, kept, folder } = found
  const record = index.records.get(sessionId)
  const text = record === undefined ? null : pythonJsonLine(record)
  const indexed = index.tags.get(sessionId) ?? []
  files.addToDigest(`${text}${JSON.stringify(indexed.map(({ tag }) => tag))}`)
  const log = (name: string): string | null => (folder === null ? null : join(folder, name))
  const json = (name: string): TextFile | null =>
    folder === null ? null : files.json(join(folder, name), { object: true })
  const plain = (path: string | null): TextFile | null => (path === null ? null : files.text(path))
  const summary = json('session-summary.json')
  const markdown = plain(log('session-summary.md'))
  const trace = folder === null ? null : flowTrace(folder, files)
  const tracker = plain(log('tool-tracker.jsonl'))
  const saved: SavedFile[] = []
  const archived: SavedFile[] = []
  const contexts: Array<SavedFile & { recovered: string | null }> = []
  for (const [project, byId] of kept) {
    const of = byId.get(sessionId)
    if (!of) continue
    const read = (path: string): SavedFile[] => {
      const file = files.text(path)
      return file ? [{ project, body: file.text, modifiedUs: file.modifiedUs }] : []
    }
    saved.push(...of.saved.flatMap(read))
    archived.push(...of.archived.flatMap(read))
    for (const path of of.contexts) {
      const file = files.json(path, { object: false })
      if (file)
        contexts.push({ project, body: file.text, modifiedUs: file.modifiedUs, recovered: file.recovered })
    }
  }
  const times = [summary, markdown, ...saved, ...archived, ...contexts].flatMap((file) =>
    file ? [file.modifiedUs] : [],
  )
  return {
    kind: 'session',
    sessionId,
    record: text,
    indexed,
    childBegan: found.began.get(sessionId) ?? null,
    summaryJson: summary && Object.keys(parseLenient(summary.text) as JsonObject).length > 0 ? summary : null,
    summaryMarkdown: markdown,
    flowTrace: trace,
    tracker: tracker?.text ?? null,
    saved,
    archived,
    contexts,
    fallbackUs: times.length > 0 ? Math.max(...times) : index.modifiedUs,
  }
}

/** The hooks' own log of the same records, which is not cut, counts where it is longer. */
function flowTrace(folder: string, files: TreeFiles): string | null {
  const trace = files.json(join(folder, 'flow-trace.json'), { object: false })
  const lines = files.text(join(folder, 'flow-trace.jsonl'))
  if (!lines) return trace?.text ?? null
  const records = lines.text.split('\n').flatMap((line) => {
    try {
      const value = line.trim() === '' ? null : parseLenient(line)
      return isJsonObject(value) ? [value] : []
    } catch {
      // A line that was cut off while it was written: the trace itself tells of it.
      return []
    }
  })
  const value = trace ? parseLenient(trace.text) : {}
  const base = isJsonObject(value) ? value : {}
  const known = Array.isArray(base.all_policies_executed) ? base.all_policies_executed.length : 0
  if (records.length <= known) return trace?.text ?? null
  return pythonJsonLine({ ...base, all_policies_executed: records })
}

function* states(root: string, files: TreeFiles): Generator<ImportEntry> {
  const folder = join(root, '.state')
  for (const name of files.names(folder)) {
    const project = /^(.+)\.json$/s.exec(name)?.[1]
    if (project === undefined) continue
    const place = join(folder, name)
    const file = files.json(place, { object: false })
    const fault = nameFault(nameOfPart(project), 'the project')
    if (fault) files.warn(`${place} was left out: ${fault.error}`)
    if (!file || fault) continue
    yield {
      kind: 'state',
      project: nameOfPart(project),
      body: file.text,
      modifiedUs: file.modifiedUs,
      recovered: file.recovered,
      place,
      sha256: files.takeDigest(),
    }
  }
}
