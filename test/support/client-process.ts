/**
 * A client in a process of its own, so that a test can kill it. The script is the body of an async function, in plain
 * JavaScript, with `connect` of the built SDK, `say(value)` (one JSON line to the test) and `heard()` (the next value the
 * test sends) in scope. The process stays until the body ends or the test ends it.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { programFile } from '../../protocol/programs.ts'
import type { TestHome } from './home.ts'
import { LineReader } from './line-reader.ts'
import { gone, signal } from './processes.ts'

export interface ClientProcess {
  readonly pid: number
  readonly stderr: LineReader
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** The next value the script said. Rejects with its stderr when it ends before. */
  next(timeout?: number): Promise<unknown>
  /** Sends a value to the script's `heard()`. */
  send(value: unknown): void
  signal(name: NodeJS.Signals): void
  kill9(): Promise<void>
}

let count = 0

export function spawnClient(
  home: TestHome,
  script: string,
  variables: Record<string, string> = {},
): ClientProcess {
  const sdk = pathToFileURL(join(dirname(programFile('daemon')), 'client.js')).href
  const file = join(home.path, `client-${++count}.mjs`)
  writeFileSync(
    file,
    `import { connect } from ${JSON.stringify(sdk)}
import { createInterface } from 'node:readline'
const say = (value) => process.stdout.write(JSON.stringify(value) + '\\n')
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const heard = async () => JSON.parse((await input.next()).value)
await (async () => {
${script}
})()
process.exit(0)
`,
  )
  const child = spawn(process.execPath, [file], {
    env: { ...home.env, ...variables },
    cwd: home.work,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const stdout = new LineReader(child.stdout)
  const stderr = new LineReader(child.stderr)
  // The script may end without reading what was sent.
  child.stdin.on('error', () => {})
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, name) => resolve({ code, signal: name }))
  })
  const pid = child.pid
  if (pid === undefined) throw new Error('the client process could not be started')
  return {
    pid,
    stderr,
    exited,
    async next(timeout) {
      try {
        return JSON.parse(await stdout.next(undefined, timeout))
      } catch (error) {
        throw new Error(`no value from the client; stderr:\n${stderr.text}`, { cause: error })
      }
    },
    send(value) {
      child.stdin.write(`${JSON.stringify(value)}\n`)
    },
    signal: (name) => signal(pid, name),
    async kill9() {
      signal(pid, 'SIGKILL')
      await gone(pid)
    },
  }
}
