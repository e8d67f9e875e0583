/**
 * What other programs leave beside a session for finalizing it: a flow trace and a tool tracker, in the places where the reference
 * and its engine write them. Read on the main thread, asynchronously, before the transaction.
 */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { decodeText, UnreadableFile } from './lenient-json.ts'
import { treeFile } from './names.ts'

export type SourceFile =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'unreadable'; readonly reason: string }

/** Of each the first that there is; absent: there is none. */
export interface SourceFiles {
  readonly flowTrace?: SourceFile
  readonly tracker?: SourceFile
}

/** Larger files are told as unreadable: they are other programs' logs, and grow without end. */
const LARGEST = 64 * 1024 * 1024

/** `roots`: trees in which to look, in order. */
export async function readSourceFiles(roots: readonly string[], sessionId: string): Promise<SourceFiles> {
  const flowTrace = await first(roots.map((root) => join(root, treeFile.log(sessionId, 'flow-trace.json'))))
  const tracker = await first(roots.map((root) => join(root, treeFile.log(sessionId, 'tool-tracker.jsonl'))))
  return { ...(flowTrace ? { flowTrace } : {}), ...(tracker ? { tracker } : {}) }
}

async function first(paths: readonly string[]): Promise<SourceFile | null> {
  for (const path of paths) {
    const file = await readOne(path)
    if (file) return file
  }
  return null
}

async function readOne(path: string): Promise<SourceFile | null> {
  let handle: Awaited<ReturnType<typeof open>> | undefined
  try {
    handle = await open(path, 'r')
    const info = await handle.stat()
    if (!info.isFile()) return { kind: 'unreadable', reason: 'it is not a file' }
    if (info.size > LARGEST) return { kind: 'unreadable', reason: `it has ${info.size} bytes` }
    return { kind: 'text', text: decodeText(await handle.readFile()) }
  } catch (error) {
    if (error instanceof UnreadableFile) return { kind: 'unreadable', reason: error.message }
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    if (code !== undefined) return { kind: 'unreadable', reason: code }
    throw error
  } finally {
    await handle?.close()
  }
}
