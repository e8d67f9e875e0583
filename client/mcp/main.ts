/**
 * The MCP server process: behind the proxy its child, or alone. Ends with 0 when its client is gone, and with 75 when a daemon of
 * another version asks for the child of that version (alone too: what it cannot know of the new daemon, it must not guess). Peers are closed within 2 s of the end, whatever hangs.
 */
import type { Readable, Writable } from 'node:stream'
import { takeOverStdout } from './stdout.ts'

export interface McpOptions {
  /** Never start a daemon. */
  readonly noStart: boolean
  /** Starts a daemon when none answers. */
  readonly autostart?: (() => Promise<void>) | undefined
  /** Shows an address in the user's browser; false: there is none here. */
  readonly show?: ((url: string) => Promise<boolean>) | undefined
  readonly stdin?: Readable | undefined
  /** Default: the real stdout, taken over before anything else is loaded. */
  readonly stdout?: Writable | undefined
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  readonly cwd?: string | undefined
}

/** Exit code of a child that makes room for another version. */
export const HANDOFF = 75

/** Resolves with the exit code when the process should end. */
export async function runMcp(options: McpOptions): Promise<number> {
  const stdout = options.stdout ?? takeOverStdout()
  const { serve } = await import('./serve.ts')
  return serve({ ...options, stdout })
}
