/**
 * `roomd open [ROOM]`: the console in the browser, let in by a token for one use. `--print` shows the address instead, for
 * another browser or through a tunnel; so does a machine without a screen.
 */
import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { CommandContext, CommandRun } from '../command.ts'
import { CommandFailure, ExitCode } from '../exit-codes.ts'
import { findRoom, openOrAttachRoom } from '../room-argument.ts'
import { withDaemon } from '../session.ts'

export const run: CommandRun<{ room: string | undefined; print: boolean }> = async (context, args) => {
  const { terminal } = context
  const { url, expires_at } = await withDaemon(context, async (client) => {
    const room = args.room
    const notebookId =
      room === undefined
        ? undefined
        : await findRoom(context, client, room).then(
            (found) => found.notebook_id,
            async () => (await openOrAttachRoom(context, client, room)).id,
          )
    const made = await client.call('create_token', {
      scope: 'owner',
      once: true,
      ...(notebookId === undefined ? {} : { notebook_id: notebookId }),
    })
    if (made.http === null) throw off()
    const address = new URL('/', made.http)
    address.searchParams.set('token', made.token)
    if (notebookId !== undefined) address.searchParams.set('notebook', notebookId)
    return { url: address.href, expires_at: made.expires_at }
  })
  if (terminal.json) terminal.result({ url, expires_at })
  else if (args.print) terminal.line(url)
  else if (await shown(context, url)) {
    terminal.note('roomd: opened in the browser; if that shows nothing: roomd open --print')
  } else {
    terminal.note(
      'roomd: no browser could be started; this address is good for one visit within two minutes:',
    )
    terminal.line(url)
  }
  return ExitCode.done
}

/**
 * Whether a browser was started. Command lines can be read by every user of the machine, and the address holds a secret: the
 * browser is given a file of ours alone that leads there.
 */
function shown({ env, places }: CommandContext, url: string): Promise<boolean> {
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

function off(): CommandFailure {
  return new CommandFailure(
    ExitCode.failed,
    'unsupported',
    'the daemon has no HTTP listener now: the setting http.enabled is false, or its port is taken.',
    'roomd logs',
  )
}
