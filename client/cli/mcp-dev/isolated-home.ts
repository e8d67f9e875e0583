/**
 * A home for one development proxy, with a daemon of its own that ends with it. A keeper process holds the other end of a pipe to the
 * proxy: however the proxy ends, SIGKILL included, the pipe closes, and the keeper stops daemon and kernels and removes the home.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Environment, resolvePlaces } from '../../../protocol/places.ts'
import { type Checkout, findCheckout, runNode } from './checkout.ts'

/** Only a folder with this file in it is ever removed. */
const MARKER = 'development-home'
const STOP_BOUND = 20_000

/** What a process of the isolated home gets besides its environment. */
export function isolatedVariables(home: string): Environment {
  return { ROOMD_HOME: home, ROOMD_SOCKET: undefined, ROOMD_NO_AUTOSTART: undefined }
}

/** Makes the home and starts its keeper. */
export function makeIsolatedHome(checkout: Checkout, env: Environment): string {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-dev-')))
  writeFileSync(join(home, MARKER), 'made by roomd mcp --dev --mode isolated; removed when it ends\n')
  const keeper = spawn(process.execPath, [checkout.program, 'mcp', '--keeper', home], {
    // A session of its own: a Ctrl-C that ends the proxy must not end who cleans up.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { ...env, ...isolatedVariables(home) },
  })
  keeper.unref()
  // The pipe lives as long as this process; it must not keep it alive.
  const pipe = keeper.stdin as (NodeJS.WritableStream & { unref?: () => void }) | null
  pipe?.unref?.()
  keeper.stdin?.on('error', () => {})
  return home
}

/** The keeper: waits for the end of stdin, then ends what is in the home and removes it. */
export async function keep(home: string): Promise<void> {
  await new Promise<void>((resolve) => {
    process.stdin.on('end', resolve).on('close', resolve).on('error', resolve).resume()
  })
  if (!existsSync(join(home, MARKER))) return
  const env = { ...process.env, ...isolatedVariables(home) }
  const checkout = findCheckout()
  const stopped = await runNode(checkout, [checkout.program, 'stop', '--kernels'], env, STOP_BOUND)
  // It is nobody's but ours: one that does not stop is ended.
  if (stopped.code !== 0) killDaemon(env)
  rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
}

function killDaemon(env: Environment): void {
  try {
    const { pid } = JSON.parse(readFileSync(resolvePlaces(env).daemonJson, 'utf8')) as { pid?: unknown }
    if (typeof pid === 'number') process.kill(pid, 'SIGKILL')
  } catch {
    // No daemon was started there, or it is gone.
  }
}
