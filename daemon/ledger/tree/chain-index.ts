/** The chain index that a tree has already, which a merging writer keeps what it does not know of. */
import { existsSync, readFileSync } from 'node:fs'
import { RoomdError } from '../../../protocol/errors.ts'
import { decodeText, isJsonObject, type JsonObject, parseLenient, UnreadableFile } from '../lenient-json.ts'

/** Refused where it cannot be read: what it holds would be lost. */
export function indexAt(path: string): JsonObject | null {
  if (!existsSync(path)) return null
  try {
    const value = parseLenient(decodeText(readFileSync(path)))
    if (isJsonObject(value)) return value
    throw new UnreadableFile('it holds no object')
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    throw new RoomdError(
      'conflict',
      `${path} cannot be read (${error.message}) and was not replaced; move it away, then export again`,
    )
  }
}

/** An index without sessions that are no more: neither their records nor their ids in the tags. */
export function withoutSessions(index: JsonObject | null, gone: ReadonlySet<string>): JsonObject | null {
  if (index === null || gone.size === 0) return index
  const { sessions, tag_index } = index
  return {
    ...index,
    ...(isJsonObject(sessions)
      ? { sessions: Object.fromEntries(Object.entries(sessions).filter(([id]) => !gone.has(id))) }
      : {}),
    ...(isJsonObject(tag_index)
      ? {
          tag_index: Object.fromEntries(
            Object.entries(tag_index).map(([tag, ids]) => [
              tag,
              Array.isArray(ids) ? ids.filter((id) => !gone.has(id)) : ids,
            ]),
          ),
        }
      : {}),
  }
}

/** Ids of both, those that are there first. */
export function mergedTags(there: JsonObject, ours: JsonObject): JsonObject {
  const merged: JsonObject = { ...there }
  for (const [tag, ids] of Object.entries(ours)) {
    const before = Array.isArray(there[tag]) ? (there[tag] as unknown[]) : []
    merged[tag] = [...new Set([...before, ...(ids as string[])])]
  }
  return merged
}
