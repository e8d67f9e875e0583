/**
 * Kernelspecs: found where Jupyter looks, and the embedded one. Read afresh each time: people install kernels while we run.
 * A spec that cannot be used is listed with the reason, never left out in silence.
 */
import { constants } from 'node:fs'
import { access, readdir, readFile } from 'node:fs/promises'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { z } from 'zod'
import { RoomdError } from '../../protocol/errors.ts'
import { isOurKernelspec } from '../../protocol/javascript-kernelspec.ts'
import { lazily } from '../../protocol/lazily.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import { programFile } from '../../protocol/programs.ts'
import type { Variables } from './environment.ts'
import { type SpecFolder, specFolders } from './kernelspec-folders.ts'

export interface KernelSpec extends KernelSpecSummary {
  /** As to be started, but for `{connection_file}`. */
  readonly argv: readonly string[]
  /** The spec's own variables, `${NAME}` resolved. */
  readonly env: Variables
  readonly interruptMode: 'signal' | 'message'
}

const KernelJson = lazily(() =>
  z.looseObject({
    argv: z.array(z.string()).min(1),
    display_name: z.string().optional(),
    language: z.string().optional(),
    interrupt_mode: z.enum(['signal', 'message']).catch('signal').default('signal'),
    env: z.record(z.string(), z.string()).catch({}).default({}),
  }),
)

export const EMBEDDED_NAME = 'javascript'
const SPEC_NAME = /^[a-z0-9._-]+$/i

/** All specs, the first of each name, the embedded one last (an installed one of its name comes first). */
export async function findKernelSpecs(env: Variables): Promise<KernelSpec[]> {
  const found = new Map<string, KernelSpec>()
  for (const folder of specFolders(env)) {
    for (const spec of await specsIn(folder, env)) if (!found.has(spec.name)) found.set(spec.name, spec)
  }
  if (!found.has(EMBEDDED_NAME)) found.set(EMBEDDED_NAME, embedded())
  return [...found.values()]
}

/** The spec of that name if it can be started. Throws `kernel_not_found` naming spec file and path, or what there is. */
export function usableSpec(specs: readonly KernelSpec[], name: string): KernelSpec {
  const spec = specs.find((candidate) => candidate.name === name)
  if (spec === undefined)
    throw new RoomdError(
      'kernel_not_found',
      `there is no kernel "${name}"; found: ${specs.map((each) => each.name).join(', ') || 'none'}. Install it, or choose one of these`,
      { cause: { name, found: specs.map((each) => each.name) } },
    )
  if (!spec.usable)
    throw new RoomdError(
      'kernel_not_found',
      `the kernel "${name}" cannot be started: ${spec.reason}. Repair or remove ${spec.path}`,
      { cause: { name, path: spec.path, program: spec.argv[0] } },
    )
  return spec
}

/**
 * Name → same language → python3 → javascript. A wanted name that exists must be usable; a wanted language is never replaced
 * by another. Throws `kernel_not_found`.
 */
export function chooseSpec(
  specs: readonly KernelSpec[],
  wanted: { name?: string; language?: string },
): KernelSpec {
  const { name, language } = wanted
  if (name !== undefined && specs.some((spec) => spec.name === name)) return usableSpec(specs, name)
  if (language !== undefined) {
    const same = specs.filter((spec) => spec.usable && spec.language.toLowerCase() === language.toLowerCase())
    const preferred = same.find((spec) => spec.name === 'python3') ?? same[0]
    if (preferred !== undefined) return preferred
    throw new RoomdError(
      'kernel_not_found',
      `there is no kernel for ${language}; found: ${specs.map((each) => each.name).join(', ') || 'none'}. Install one, or choose one of these`,
      { cause: { ...wanted, found: specs.map((each) => each.name) } },
    )
  }
  if (name !== undefined) return usableSpec(specs, name)
  const standard = ['python3', EMBEDDED_NAME]
    .map((each) => specs.find((spec) => spec.name === each && spec.usable))
    .find((spec) => spec !== undefined)
  return standard ?? usableSpec(specs, EMBEDDED_NAME)
}

/** What others are shown of a spec. */
export function summaryOf(spec: KernelSpec): KernelSpecSummary {
  const { name, display_name, language, source, path, usable, reason } = spec
  return { name, display_name, language, source, path, usable, ...(reason === undefined ? {} : { reason }) }
}

async function specsIn(folder: SpecFolder, env: Variables): Promise<KernelSpec[]> {
  let names: string[]
  try {
    names = await readdir(folder.path)
  } catch {
    // Most of the folders that could hold specs are not there; those that may not be read hold nothing for us.
    return []
  }
  const specs = await Promise.all(
    names
      .filter((name) => SPEC_NAME.test(name))
      .sort()
      .map((name) => readSpec(folder, name, env)),
  )
  return specs.filter((spec) => spec !== null)
}

async function readSpec(folder: SpecFolder, name: string, env: Variables): Promise<KernelSpec | null> {
  const resources = join(folder.path, name)
  const path = join(resources, 'kernel.json')
  const bare = {
    // Jupyter's names are the same whatever their case.
    name: name.toLowerCase(),
    source: folder.source,
    path,
    usable: false,
    argv: [],
    env: {},
    interruptMode: 'signal' as const,
  }
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    // A folder or file without kernel.json is no spec.
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    return { ...bare, display_name: name, language: '', reason: `${path} cannot be read: ${message}` }
  }
  const parsed = parseKernelJson(text)
  if (typeof parsed === 'string')
    return { ...bare, display_name: name, language: '', reason: `${path} is no kernelspec: ${parsed}` }
  // Ours, written for Jupyter: we start the kernel we have, which is never older.
  if (isOurKernelspec(parsed)) return null
  const prefix = dirname(dirname(dirname(dirname(resources))))
  const argv = parsed.argv.map((argument) =>
    argument.replaceAll('{resource_dir}', resources).replaceAll('{prefix}', prefix),
  )
  const program = await findProgram(argv[0] ?? '', prefix, env)
  return {
    ...bare,
    display_name: parsed.display_name ?? name,
    language: parsed.language ?? '',
    argv: program === null ? argv : [program, ...argv.slice(1)],
    env: Object.fromEntries(Object.entries(parsed.env).map(([key, value]) => [key, resolved(value, env)])),
    interruptMode: parsed.interrupt_mode,
    usable: program !== null,
    ...(program === null ? { reason: `${path} names ${argv[0]}, which is not there or not executable` } : {}),
  }
}

function parseKernelJson(text: string): z.output<typeof KernelJson> | string {
  try {
    return KernelJson.parse(JSON.parse(text))
  } catch (error) {
    if (error instanceof z.ZodError)
      return error.issues.map((i) => `${i.path.join('.')}: ${i.message}`).join('; ')
    return error instanceof Error ? error.message : String(error)
  }
}

/** An executable file, or null. A bare `python` means the interpreter of the prefix that the spec was installed under. */
async function findProgram(program: string, prefix: string, env: Variables): Promise<string | null> {
  if (isAbsolute(program)) return (await executable(program)) ? program : null
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  if (/^python(?:\d+(?:\.\d+)?)?$/.test(program)) folders.unshift(join(prefix, 'bin'))
  const endings = process.platform === 'win32' ? ['.exe', '.cmd', '.bat', ''] : ['']
  for (const folder of folders) {
    for (const ending of endings) {
      const candidate = join(folder, `${program}${ending}`)
      if (await executable(candidate)) return candidate
    }
  }
  return null
}

async function executable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function resolved(value: string, env: Variables): string {
  return value.replace(/\$\{(\w+)\}/g, (_all, name: string) => env[name] ?? '')
}

function embedded(): KernelSpec {
  const base = {
    name: EMBEDDED_NAME,
    display_name: 'JavaScript (roomd)',
    language: 'javascript',
    source: 'embedded',
    env: {},
    interruptMode: 'signal' as const,
  }
  try {
    const path = programFile('javascript-kernel')
    return { ...base, path, usable: true, argv: [process.execPath, path, '{connection_file}'] }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { ...base, path: 'javascript-kernel.js', usable: false, reason, argv: [process.execPath] }
  }
}
