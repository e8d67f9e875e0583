/** How an MCP client should start us: by a path that survives an upgrade, and in the same home as now. */
import { accessSync, constants, realpathSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { programFile } from '../../../protocol/programs.ts'

export interface ServerCommand {
  readonly command: string
  readonly args: readonly string[]
  /** Only what decides which daemon is meant, and only where it is set now. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * The `roomd` on PATH where it is this very program: an upgrade replaces what it points to. Else Node and the program by their
 * absolute paths, because clients start servers with few variables set.
 */
export function serverCommand(env: Readonly<Record<string, string | undefined>>): ServerCommand {
  const program = realpathSync(programFile('roomd'))
  const settings: Record<string, string> = {}
  for (const name of ['ROOMD_HOME', 'ROOMD_SOCKET'] as const) {
    const value = env[name]
    if (value) settings[name] = resolve(value)
  }
  const linked = onPath(env.PATH ?? '', program)
  if (linked !== null) return { command: linked, args: ['mcp'], env: settings }
  return { command: process.execPath, args: [program, 'mcp'], env: settings }
}

function onPath(path: string, program: string): string | null {
  if (process.platform === 'win32') return null
  for (const folder of path.split(delimiter)) {
    if (folder === '') continue
    const file = join(folder, 'roomd')
    try {
      accessSync(file, constants.X_OK)
      if (realpathSync(file) === program) return file
    } catch {
      // Not there, or not ours to run: the next folder.
    }
  }
  return null
}
