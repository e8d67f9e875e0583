/**
 * The settings of a home: `<config>/config.json`, one JSON object. Read once when the daemon starts; the command line reads and
 * writes the same file. A file that is wrong in one place is wrong: it is refused with the place, never half believed, so that a
 * misspelled setting is found when it is made and not when it is missed.
 *
 * To add a setting: a key here with its default. Secrets do not belong here, only the names of the environment variables that hold
 * them. Node only.
 */
import { readFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { z } from 'zod'
import { RoomdError } from './errors.ts'
import type { Places } from './places.ts'

const HttpSettings = z.strictObject({
  /** Whether the daemon listens on 127.0.0.1 at all. */
  enabled: z.boolean().default(true),
  /** 0: a free port that the system chooses; it is told in `roomd status` and daemon.json. */
  port: z.int().min(0).max(65_535).default(0),
  /**
   * Further names (`host` or `host:port`) under which a reverse proxy or a tunnel on this machine passes requests on, beside
   * 127.0.0.1, localhost and [::1] with the listener's own port.
   */
  hosts: z
    .array(
      z
        .string()
        .regex(
          /^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$/,
          'expected host or host:port, with no scheme and no path',
        ),
    )
    .max(100)
    .default([]),
})

/** A daemon elsewhere, and where its token is found. */
const RemoteSettings = z.strictObject({
  url: z.url({ protocol: /^wss?$/, error: 'expected ws://HOST[:PORT] or wss://HOST[:PORT]' }),
  /** Name of the environment variable that holds the token. */
  token_env: z
    .string()
    .regex(/^[A-Za-z_]\w*$/, 'expected the name of an environment variable')
    .optional(),
  /** Absolute path of a file that holds the token. */
  token_file: z
    .string()
    .regex(/^([/~]|[A-Za-z]:)/, 'expected an absolute path')
    .optional(),
})

/** A Jupyter Server, Kernel Gateway or Enterprise Gateway whose kernels are offered as `name/spec`. */
export const GatewaySettings = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{0,49}$/i, 'must be letters, digits, ".", "_" or "-", at most 50 of them'),
  /** Where its API is: `<url>/api/kernels` must answer. */
  url: z.string().max(2000).superRefine(checkGatewayUrl),
  /** Environment variable that holds its token; without it nothing is sent. */
  token_env: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of an environment variable')
    .optional(),
})
export type GatewaySettings = z.infer<typeof GatewaySettings>

const KernelSettings = z.strictObject({
  gateways: z
    .array(GatewaySettings)
    .default([])
    .superRefine((gateways, context) => {
      const seen = new Set<string>()
      for (const [index, { name }] of gateways.entries()) {
        if (seen.has(name))
          context.addIssue({ code: 'custom', path: [index, 'name'], message: `"${name}" is there twice` })
        seen.add(name)
      }
    }),
})

const LedgerSettings = z.strictObject({
  /** Absolute path of a folder that is kept as the reference's tree, for programs that read files; null: none. */
  mirror: z
    .string()
    .max(4096)
    .refine((path) => isAbsolute(path) && !path.includes('\0'), 'expected an absolute path')
    .nullable()
    .default(null),
  /** Tags and summaries as the reference makes them: keywords inside other words count, tables are not escaped. */
  compat: z.boolean().default(false),
  /** Prompts of session_accumulate give tags too, not only the first one. */
  tag_prompts: z.boolean().default(false),
  /** Days without a change after which a session is archived; 0: never by itself. */
  archive_after_days: z.int().min(0).max(100_000).default(0),
  /** Days in the archive after which a session is deleted for good; 0: never. */
  delete_archived_after_days: z.int().min(0).max(100_000).default(0),
  /**
   * Days for which single hook events are kept, and single tool events of sessions in which nothing happens any more; what they came to
   * stays. 0: for good.
   */
  keep_events_days: z.int().min(0).max(100_000).default(90),
})

const PoolSettings = z.strictObject({
  /** Keep one kernel ready for each kernelspec that was used in the last 24 hours, so that new notebooks start warm too. */
  generic: z.boolean().default(true),
  /** Bytes that kernels may use together before the cheapest are ended; null: half of the machine's memory. */
  memory: z
    .int()
    .min(64 * 1024 * 1024)
    .nullable()
    .default(null),
  /** false: nothing is warmed ahead of need; claims are all cold. */
  enabled: z.boolean().default(true),
})

export const Settings = z.strictObject({
  pool: PoolSettings.prefault({}),
  http: HttpSettings.prefault({}),
  /** Daemons on other machines, by names of the user's own. */
  remotes: z.record(z.string().regex(/^[\w-]+$/), RemoteSettings).default({}),
  kernels: KernelSettings.prefault({}),
  ledger: LedgerSettings.prefault({}),
})
export type Settings = z.infer<typeof Settings>

export function configFile(places: Places): string {
  return join(places.config, 'config.json')
}

/** The settings with every default filled in; a missing file is an empty one. Throws `invalid_argument` with file and place. */
export function readSettings(places: Places): Settings {
  const file = configFile(places)
  return checkSettings(readConfigFile(file), file)
}

/** What the file says itself, without defaults and unchecked but for being an object. Throws `invalid_argument`. */
export function readConfigFile(file: string): Record<string, unknown> {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw refused(file, `it cannot be read: ${(error as Error).message}`)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw refused(file, `it is not JSON: ${(error as Error).message}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refused(file, 'it must hold one JSON object')
  return value as Record<string, unknown>
}

/** `file` is named in the error. */
export function checkSettings(value: unknown, file: string): Settings {
  const parsed = Settings.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  const place = issue?.path.join('.') ?? ''
  throw refused(file, place === '' ? `${issue?.message}` : `${place}: ${issue?.message}`)
}

/** A secret in the URL would be in a file that is no secret, and in every message that names the gateway. */
function checkGatewayUrl(text: string, context: z.RefinementCtx): void {
  const url = URL.canParse(text) ? new URL(text) : null
  const fault =
    url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')
      ? 'must be a URL that begins with http:// or https://'
      : url.username !== '' || url.password !== ''
        ? 'must not hold a name or password; name the variable that holds the token in token_env'
        : url.search !== '' || url.hash !== ''
          ? 'must end with its path; a token belongs into the variable that token_env names'
          : null
  if (fault !== null) context.addIssue({ code: 'custom', message: fault })
}

function refused(file: string, reason: string): RoomdError {
  return new RoomdError(
    'invalid_argument',
    `the settings in ${file} are not usable: ${reason}. Correct the file, or use "roomd config set".`,
    { cause: { path: file, reason } },
  )
}
