/**
 * What a project's rooms are like: kernel, environment, setup, preload, data. Said on the command line (which a person did, and wins),
 * and in the repository's own `roomd.json`, which is read as data and heeded only once the project is trusted.
 */
import { z } from 'zod'
import { lazily } from '../../protocol/lazily.ts'

export const MAX_DEPTH = 3
const command = lazily(() =>
  z
    .string()
    .min(1)
    .max(16 * 1024),
)

const fields = {
  /** Kernelspec name. */
  kernel: z.string().min(1).max(200).optional(),
  /** Python (or whatever the kernelspec runs) to use instead of the kernelspec's own; relative: to the project's folder. */
  interpreter: z.string().min(1).max(4096).optional(),
  /** Shell commands that prepare the environment, run in the workspace. */
  setup: z.array(command).max(50).optional(),
  /** Code that each kernel runs once when it has started. */
  preload: z.array(command).max(50).optional(),
  /** Files and folders that are not in git; linked into workspaces. */
  data: z.array(z.string().min(1).max(4096)).max(100).optional(),
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(64 * 1024)).optional(),
}

/** What a person said at `project add`. */
export const OwnSettings = lazily(() =>
  z.strictObject({
    ...fields,
    /** Warm rooms kept ready. 0: none. */
    depth: z.number().int().min(0).max(MAX_DEPTH).optional(),
  }),
)
export type OwnSettings = z.output<typeof OwnSettings>

/** `roomd.json`. */
export const Manifest = lazily(() => z.strictObject(fields))
export type Manifest = z.output<typeof Manifest>

export const MANIFEST_FILE = 'roomd.json'

/** What holds: own settings over the manifest's over the defaults. */
export interface ProjectSettings {
  readonly kernel: string | null
  readonly interpreter: string | null
  readonly setup: readonly string[]
  readonly preload: readonly string[]
  /** `own`: said by a person, who may name any place; else by the repository, which may name only what lies in it. */
  readonly data: readonly { readonly path: string; readonly own: boolean }[]
  readonly env: Readonly<Record<string, string>>
  readonly depth: number
}

export function mergeSettings(own: OwnSettings, manifest: Manifest | null): ProjectSettings {
  const theirs = manifest ?? {}
  return {
    kernel: own.kernel ?? theirs.kernel ?? null,
    interpreter: own.interpreter ?? theirs.interpreter ?? null,
    setup: own.setup ?? theirs.setup ?? [],
    preload: own.preload ?? theirs.preload ?? [],
    data: own.data
      ? own.data.map((path) => ({ path, own: true }))
      : (theirs.data ?? []).map((path) => ({ path, own: false })),
    env: { ...theirs.env, ...own.env },
    depth: own.depth ?? 1,
  }
}

/** The manifest in a text, or why it is none. */
export function readManifest(text: string): { manifest: Manifest } | { reason: string } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { reason: `${MANIFEST_FILE} is not JSON: ${(error as Error).message}` }
  }
  const parsed = Manifest.safeParse(value)
  if (parsed.success) return { manifest: parsed.data }
  const issue = parsed.error.issues[0]
  return { reason: `${MANIFEST_FILE}: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'invalid'}` }
}
