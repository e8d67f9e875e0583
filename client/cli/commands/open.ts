/**
 * `roomd open [ROOM]`: the console in the browser, let in by a token for one use. `--print` shows the address instead, for
 * another browser or through a tunnel; so does a machine without a screen.
 */
import { showInBrowser } from '../browser.ts'
import type { CommandRun } from '../command.ts'
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
  else if (await showInBrowser(context, url)) {
    terminal.note('roomd: opened in the browser; if that shows nothing: roomd open --print')
  } else {
    terminal.note(
      'roomd: no browser could be started; this address is good for one visit within two minutes:',
    )
    terminal.line(url)
  }
  return ExitCode.done
}

function off(): CommandFailure {
  return new CommandFailure(
    ExitCode.failed,
    'unsupported',
    'the daemon has no HTTP listener now: the setting http.enabled is false, or its port is taken.',
    'roomd logs',
  )
}
