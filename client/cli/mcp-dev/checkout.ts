/** The source checkout that a development proxy works on, and running its programs to their end. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { programFile } from '../../../protocol/programs.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'

export interface Checkout {
  /** Absolute. */
  readonly root: string
  /** `dist/roomd.js`, rebuilt in place. */
  readonly program: string
}

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  /** The newest 8 Ki characters of stdout and stderr together. */
  readonly output: string
  readonly ms: number
}

const OUTPUT_KEPT = 8192

/** The checkout that this program was built from. Fails with usage where it is an installed one. */
export function findCheckout(program: string = programFile('roomd')): Checkout {
  const file = realpathSync(program)
  const root = dirname(dirname(file))
  if (existsSync(join(root, 'scripts', 'build.mjs')) && existsSync(join(root, 'client', 'cli', 'main.ts'))) {
    return { root, program: file }
  }
  throw new CommandFailure(
    ExitCode.usage,
    'usage',
    `--dev works on a source checkout, and ${root} is none: this roomd was installed without its sources.`,
    'roomd mcp',
  )
}

/** Runs `node ARGS` in the checkout. Rejects only when it cannot be started; ends it after `boundMs`. */
export function runNode(
  checkout: Checkout,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  boundMs: number,
): Promise<Finished> {
  const started = Date.now()
  return new Promise((resolve, reject) => {
    const child: ChildProcess = spawn(process.execPath, [...args], {
      cwd: checkout.root,
      env: { ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const timer = setTimeout(() => child.kill('SIGKILL'), boundMs)
    let stdout = ''
    let output = ''
    const keep = (text: string) => {
      output = (output + text).slice(-OUTPUT_KEPT)
    }
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      keep(text)
    })
    child.stderr?.setEncoding('utf8').on('data', keep)
    child.once('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      if (signal !== null) keep(`\nended by ${signal} after ${Date.now() - started} ms`)
      resolve({ code, stdout, output: output.trim(), ms: Date.now() - started })
    })
  })
}
