/**
 * The daemon was replaced by one of another version: the child of that version takes over. The first version that was met is the
 * one this process stays with, so a child and a daemon that differ from the start get along. The daemon that answers is asked, on
 * every connection; a connection that is merely lost says nothing.
 */
import type { DaemonLink } from './daemon-link.ts'

/** Calls `handoff` once, with both versions. Returns how to stop watching. */
export function watchVersion(daemon: DaemonLink, handoff: (from: string, to: string) => void): () => void {
  let met: string | null = daemon.present?.daemon?.version ?? null
  let done = false
  return daemon.on('daemon', (event) => {
    if (event.state !== 'connected' && event.state !== 'replaced') return
    const { version } = event
    met ??= version
    if (version === met || done) return
    done = true
    handoff(met, version)
  })
}
