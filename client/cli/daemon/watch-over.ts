/**
 * Keeps a long command's daemon there: when it is lost, it is dialled and (where allowed) started again; the room goes on by itself. What
 * cannot be brought back ends the command.
 */
import type { Client } from '../../sdk/client.ts'
import type { LiveScreen } from '../show/live-screen.ts'

/** `gone` is called with the error when the daemon stays away. Returns how to stop. */
export function watchOver(client: Client, screen: LiveScreen, gone: (error: unknown) => void): () => void {
  let leaving = false
  return client.on('daemon', (event) => {
    switch (event.state) {
      case 'going_away':
        leaving = event.reason === 'stop'
        return
      case 'lost':
        screen.note(
          leaving
            ? 'roomd: the daemon was stopped; what runs goes on in its kernel'
            : 'roomd: the daemon is away; what runs goes on in its kernel',
        )
        // A call waits for the daemon, and starts one: exactly what is wanted here.
        client.call('ping', {}).catch(gone)
        return
      case 'connected':
      case 'replaced':
        if (event.state === 'replaced') screen.note(`roomd: going on with the daemon of pid ${event.pid}`)
        leaving = false
    }
  })
}
