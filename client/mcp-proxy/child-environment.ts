/**
 * The environment and program of a child.
 *
 * Stripped from what the proxy inherited, unless the embedding program sets them itself: whatever a developer's shell may have left
 * that would make an installed proxy run other code, or stop its child at a debugger.
 *   - `NODE_PATH`, and `NODE_OPTIONS` when it loads modules, changes how they are found, or inspects;
 *   - `VSCODE_INSPECTOR_OPTIONS` (the editor's automatic attach) and `TSX_TSCONFIG_PATH`;
 *   - every `ROOMD_DEV…`;
 *   - `ROOMD_REJOIN` and `ROOMD_CLIENT_INSTANCE`, which name another proxy's session: the proxy sets its own.
 * `ROOMD_HOME`, `ROOMD_SOCKET`, `ROOMD_NO_AUTOSTART` and `ROOMD_LOG_LEVEL` stay: they are the user's documented settings.
 */
import { existsSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { programFile } from '../../protocol/programs.ts'

export type Environment = Readonly<Record<string, string | undefined>>

const redirecting =
  /^(NODE_PATH|VSCODE_INSPECTOR_OPTIONS|TSX_TSCONFIG_PATH|ROOMD_DEV.*|ROOMD_REJOIN|ROOMD_CLIENT_INSTANCE)$/
const loadsOrInspects =
  /(^|\s)(-r|--require|--import|--loader|--experimental-loader|--env-file|-C|--conditions|--preserve-symlinks|--inspect)/

/** `given` is what the embedding program wants: its values win, also over what is stripped; undefined removes a variable. */
export function childEnvironment(inherited: Environment, given: Environment): Record<string, string> {
  const environment: Record<string, string> = {}
  for (const [name, value] of Object.entries(inherited)) {
    if (value === undefined || redirecting.test(name)) continue
    if (name === 'NODE_OPTIONS' && loadsOrInspects.test(value)) continue
    environment[name] = value
  }
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) delete environment[name]
    else environment[name] = value
  }
  return environment
}

/**
 * Node and the `roomd` program as they are on disk now, so that an upgrade takes effect at the next start: the path by which we
 * were called is followed again, because installers switch a link. Throws when no program is there.
 */
export function currentProgram(calledAs: string | undefined = process.argv[1]): {
  node: string
  program: string
} {
  // A Node that an upgrade removed is looked up by name.
  const node = existsSync(process.execPath) ? process.execPath : 'node'
  if (calledAs !== undefined && existsSync(calledAs)) {
    const program = realpathSync(calledAs)
    if (basename(program) === 'roomd.js') return { node, program }
  }
  return { node, program: programFile('roomd') }
}
