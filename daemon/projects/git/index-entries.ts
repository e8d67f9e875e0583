/** What is in the index of a working tree. */
import type { Git, GitOptions } from './git.ts'

export interface IndexEntry {
  /** Octal, such as 100644; 160000: the commit of a submodule. */
  readonly mode: string
  readonly object: string
  readonly path: string
}

export async function indexEntries(git: Git, options: GitOptions): Promise<IndexEntry[]> {
  const out = await git.run(['ls-files', '--stage', '-z'], options)
  return out.split('\0').flatMap((entry) => {
    const [, mode, object, path] = /^(\d+) ([0-9a-f]+) \d\t([\s\S]+)$/.exec(entry) ?? []
    return mode && object && path ? [{ mode, object, path }] : []
  })
}
