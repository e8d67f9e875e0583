/**
 * `roomd daemon`: this very process becomes the daemon, so that a service manager sees the pid that `daemon.json` tells. From
 * then on signals and the exit code are the daemon's own business.
 */
import { pathToFileURL } from 'node:url'
import { programFile } from '../../../protocol/programs.ts'
import type { CommandRun } from '../command.ts'

export const run: CommandRun<Record<string, never>> = async () => {
  await import(pathToFileURL(programFile('daemon')).href)
  return new Promise(() => {})
}
