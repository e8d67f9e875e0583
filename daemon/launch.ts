/**
 * The file that is started as the daemon. Runs the program, which lies beside it as one script, with the machine code and byte code
 * that V8 made of it in an earlier run: compiling it anew takes longer than all else that a start does.
 *
 * The kept code lies beside the program, under the program's own content hash and this Node's version of V8, with a hash in front of it; V8 too
 * refuses what it did not make itself. So it can be missing, stale or torn, and then costs only time. It is written once, by a
 * daemon that became ready: by then what a start needs was compiled.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import { replaceFile } from '../protocol/small-files.ts'

/** The name of the program's file; the build writes it here. */
declare const DAEMON_PROGRAM: string

/** What `main.ts` exports. */
interface Program {
  readonly ready: Promise<void>
}

type Wrapped = (
  exports: object,
  require: NodeJS.Require,
  module: { exports: object },
  filename: string,
  dirname: string,
) => void

const HASH_BYTES = 32
/** A start that is busy with its first clients is not held up. */
const KEEP_AFTER_MS = 3_000

const folder = dirname(fileURLToPath(import.meta.url))
const file = join(folder, DAEMON_PROGRAM)
const kept = file.replace(/\.cjs$/, `-${process.versions.v8}-${process.platform}-${process.arch}.cache`)

launch()

function launch(): void {
  const cachedData = readCode()
  // The build writes the program as one function, in ASCII: V8 takes the bytes as they are.
  const script = new Script(readFileSync(file, 'latin1'), {
    filename: file,
    ...(cachedData && { cachedData }),
  })
  const module = { exports: {} }
  const run = script.runInThisContext() as Wrapped
  run(module.exports, createRequire(file), module, file, folder)
  if (cachedData && !script.cachedDataRejected) return
  const { ready } = module.exports as Program
  ready.then(() => keepCode(script))
}

function readCode(): Buffer | null {
  let bytes: Buffer
  try {
    bytes = readFileSync(kept)
  } catch {
    // The first start of this program, or a file that cannot be read: it is compiled.
    return null
  }
  const code = bytes.subarray(HASH_BYTES)
  return hash(code).equals(bytes.subarray(0, HASH_BYTES)) ? code : null
}

/** Soon, or when the process ends before. */
function keepCode(script: Script): void {
  const write = (): void => {
    clearTimeout(timer)
    process.off('exit', write)
    const code = script.createCachedData()
    try {
      replaceFile(kept, Buffer.concat([hash(code), code]), { outlives: 'machine', mode: 0o644 })
    } catch {
      // Installed for all users, or a full disk: the next start compiles again, which is only slower.
    }
  }
  const timer = setTimeout(write, KEEP_AFTER_MS)
  timer.unref()
  process.once('exit', write)
}

function hash(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}
