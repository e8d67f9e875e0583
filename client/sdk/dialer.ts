/** The seam between the connection and the platform: how to reach the daemon, and how to learn that it may be there again. */
import type { Transport } from '../../protocol/wire/transport.ts'

export interface Dialer {
  /** Where it dials, for people: a socket path or a URL. */
  readonly place: string
  /**
   * Makes a transport and gives it to `take` in the very turn in which it opened, so that nothing that arrives is lost. Settles as
   * `take` does; rejects with a RoomdError where trying again is no use (`forbidden`, `unauthorized`), else with the platform's
   * own error.
   */
  dial(signal: AbortSignal, take: (transport: Transport) => Promise<void>): Promise<void>
  /** Calls `appeared` whenever a daemon may have appeared, until the returned function is called. Holds the process meanwhile. */
  watch(appeared: () => void): () => void
  /** A path as the daemon understands it: absolute where both are on one machine. */
  resolvePath(path: string): string
  /** For HELLO; 0 where there is none to tell. */
  readonly pid: number
}
