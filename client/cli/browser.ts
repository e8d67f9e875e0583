/** Showing an address that holds a secret in this machine's browser. */
import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { CommandContext } from './command.ts'

/**
 * Whether a browser was started. Command lines can be read by every user of the machine, and the address holds a secret: the
 * browser is given a file of ours alone that leads there.
 */
export function showInBrowser(
  { env, places }: Pick<CommandContext, 'env' | 'places'>,
  url: string,
): Promise<boolean> {
  const headless = process.platform === 'linux' && !env.DISPLAY && !env.WAYLAND_DISPLAY
  if (headless) return Promise.resolve(false)
  const file = join(places.runtime, 'open.html')
  rmSync(file, { force: true })
  writeFileSync(file, leadingTo(url), { mode: 0o600, flag: 'wx' })
  const [program, ...before] = opener()
  return new Promise((resolve) => {
    const child = spawn(program, [...before, pathToFileURL(file).href], { stdio: 'ignore', detached: true })
    child.once('error', () => resolve(false))
    child.once('exit', (code) => resolve(code === 0))
    child.once('spawn', () => child.unref())
  })
}

/** The characters of a URL need no escaping in an attribute, but for `&`. */
function leadingTo(url: string): string {
  const address = url.replaceAll('&', '&amp;')
  return `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${address}"><title>roomd</title><a href="${address}">roomd</a>\n`
}

function opener(): [string, ...string[]] {
  switch (process.platform) {
    case 'darwin':
      return ['open']
    case 'win32':
      return ['rundll32', 'url.dll,FileProtocolHandler']
    default:
      return ['xdg-open']
  }
}
