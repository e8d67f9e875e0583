/**
 * Searching with a pattern that somebody else wrote: in a worker thread with a deadline, since some patterns take longer than anybody
 * waits and cannot be stopped in any other way. Patterns are JavaScript's, multiline; a few ways of writing them that other
 * languages have are translated.
 */
import { Worker } from 'node:worker_threads'
import { RoomdError } from '../../../protocol/errors.ts'

export interface Match {
  /** In UTF-16 units. */
  readonly index: number
  readonly length: number
}

/** Milliseconds a search may take, once its thread runs. */
const DEADLINE = 2_000
/** Enough to say that it is not the only one, and where the others are. */
const MATCHES = 20

const search = `
const { parentPort, workerData } = require('node:worker_threads')
const { pattern, flags, text, limit } = workerData
const found = []
for (const match of text.matchAll(new RegExp(pattern, flags))) {
  found.push({ index: match.index, length: match[0].length })
  if (found.length === limit) break
}
parentPort.postMessage(found)
`

/** The first matches. Throws `invalid_argument` for what is no pattern, and for one that takes too long. */
export async function findMatches(pattern: string, text: string, signal: AbortSignal): Promise<Match[]> {
  const compiled = compile(pattern)
  const worker = new Worker(search, {
    eval: true,
    workerData: { ...compiled, text, limit: MATCHES },
    resourceLimits: { maxOldGenerationSizeMb: 128 },
    stdin: false,
    env: {},
    execArgv: [],
  })
  let stop = (): void => {}
  try {
    return await new Promise<Match[]>((resolve, reject) => {
      let late: NodeJS.Timeout | undefined
      // A busy machine takes its time to start a thread: that says nothing about the pattern.
      worker.once('online', () => {
        late = setTimeout(
          () =>
            reject(
              new RoomdError(
                'invalid_argument',
                `the pattern did not come to an end within ${DEADLINE / 1000} s (nested repetitions like (a+)+ do that); nothing was changed. Write it more simply, or use replace_match`,
              ),
            ),
          DEADLINE,
        )
      })
      const abort = (): void => reject(new RoomdError('client_aborted', 'the search was cancelled'))
      signal.addEventListener('abort', abort, { once: true })
      stop = () => {
        clearTimeout(late)
        signal.removeEventListener('abort', abort)
      }
      worker.once('message', resolve)
      worker.once('error', (error) =>
        reject(new RoomdError('invalid_argument', `the pattern could not be searched for: ${error.message}`)),
      )
    })
  } finally {
    stop()
    await worker.terminate()
  }
}

/** Pattern and flags for RegExp. */
export function compile(pattern: string): { pattern: string; flags: string } {
  const { body, flags } = translate(pattern)
  // Unicode mode reads characters beyond 16 bits as one; it also refuses escapes that mean nothing, which people write.
  for (const mode of [`gmu${flags}`, `gm${flags}`]) {
    try {
      new RegExp(body, mode)
      return { pattern: body, flags: mode }
    } catch (error) {
      if (mode.includes('u')) continue
      throw new RoomdError(
        'invalid_argument',
        `not a regular expression (JavaScript's grammar): ${(error as Error).message}`,
      )
    }
  }
  throw new RoomdError('invalid_argument', 'not a regular expression')
}

/** `(?i)` and the like at the start, `(?P<name>`, `\A`, `\Z`, `\z`. */
function translate(pattern: string): { body: string; flags: string } {
  const inline = /^\(\?([ims]+)\)/.exec(pattern)
  const body = (inline ? pattern.slice(inline[0].length) : pattern)
    .replaceAll('(?P<', '(?<')
    .replace(/\\(.)/gs, (written, letter: string) =>
      letter === 'A' ? '(?<![\\s\\S])' : letter === 'Z' || letter === 'z' ? '(?![\\s\\S])' : written,
    )
  const flags = [...new Set(inline?.[1] ?? '')].filter((flag) => flag !== 'm').join('')
  return { body, flags }
}
