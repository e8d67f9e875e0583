/**
 * Where things lie: the one rule for daemon and clients alike (interfaces.md, files and environment). Node only. Computes, never
 * creates; `../daemon/server/runtime-folder.ts` creates and checks.
 */
import { createHash } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { homedir, tmpdir, userInfo } from 'node:os'
import { join, resolve } from 'node:path'

export interface Places {
  /** What the hashed fallback is made of: ROOMD_HOME resolved, else the state folder. */
  readonly home: string
  /** Sockets and daemon.json; 0700. May vanish at logout. */
  readonly runtime: string
  readonly data: string
  readonly state: string
  readonly logs: string
  readonly config: string
  /** Path the daemon listens on; short enough for a Unix socket address. */
  readonly socket: string
  readonly daemonJson: string
  /** Never opened, read or removed by the process that holds it, except by the lock itself. */
  readonly lock: string
  /** Exists while `roomd stop` wants the daemon to stay stopped. */
  readonly stopped: string
  /** Folder in which hooks of agents leave events while no daemon answers. */
  readonly hookSpool: string
}

export type Environment = Readonly<Record<string, string | undefined>>

/** Longest socket path in bytes that the platform's address holds. */
export function maxSocketPath(platform: NodeJS.Platform = process.platform): number {
  return platform === 'linux' ? 107 : 103
}

/** `$XDG_RUNTIME_DIR`, else `roomd-<uid>` in the system's temporary folder. */
export function sharedRuntimeFolder(env: Environment = process.env): string {
  if (env.XDG_RUNTIME_DIR) return env.XDG_RUNTIME_DIR
  return join(tmpdir(), `roomd-${process.getuid?.() ?? userInfo().username}`)
}

/**
 * The path-length rule: `wanted` if its bytes fit, else `<runtime>/roomd-<12 hex of sha256(home)>/<short>`. Never truncated.
 * For the daemon's socket `short` is `s`.
 */
export function fittingSocketPath(
  wanted: string,
  home: string,
  short: string,
  env: Environment = process.env,
): string {
  if (Buffer.byteLength(wanted) <= maxSocketPath()) return wanted
  const digest = createHash('sha256').update(home).digest('hex').slice(0, 12)
  return join(sharedRuntimeFolder(env), `roomd-${digest}`, short)
}

export function resolvePlaces(
  env: Environment = process.env,
  platform: NodeJS.Platform = process.platform,
): Places {
  const layout = env.ROOMD_HOME ? underOneHome(env.ROOMD_HOME) : platformFolders(env, platform)
  const wanted = env.ROOMD_SOCKET ? resolve(env.ROOMD_SOCKET) : join(layout.runtime, 'roomd.sock')
  return {
    ...layout,
    socket: fittingSocketPath(wanted, layout.home, 's', env),
    daemonJson: join(layout.runtime, 'daemon.json'),
    lock: join(layout.state, 'daemon.lock'),
    stopped: join(layout.state, 'stopped'),
    hookSpool: join(layout.state, 'ledger-spool'),
  }
}

type Folders = Pick<Places, 'home' | 'runtime' | 'data' | 'state' | 'logs' | 'config'>

function underOneHome(wanted: string): Folders {
  const home = resolveSymlinks(resolve(wanted))
  return {
    home,
    runtime: join(home, 'run'),
    data: join(home, 'data'),
    state: join(home, 'state'),
    logs: join(home, 'logs'),
    config: join(home, 'config'),
  }
}

function platformFolders(env: Environment, platform: NodeJS.Platform): Folders {
  const user = env.HOME || homedir()
  if (platform === 'darwin') {
    const support = join(user, 'Library', 'Application Support', 'roomd')
    return {
      home: support,
      runtime: join(support, 'run'),
      data: join(support, 'data'),
      state: join(support, 'state'),
      logs: join(user, 'Library', 'Logs', 'roomd'),
      config: join(user, 'Library', 'Preferences', 'roomd'),
    }
  }
  if (platform === 'win32') {
    const local = join(env.LOCALAPPDATA || join(user, 'AppData', 'Local'), 'roomd')
    return {
      home: local,
      runtime: join(local, 'run'),
      data: join(local, 'data'),
      state: join(local, 'state'),
      logs: join(local, 'logs'),
      config: join(local, 'config'),
    }
  }
  const state = join(env.XDG_STATE_HOME || join(user, '.local', 'state'), 'roomd')
  return {
    home: state,
    runtime: join(sharedRuntimeFolder(env), 'roomd'),
    data: join(env.XDG_DATA_HOME || join(user, '.local', 'share'), 'roomd'),
    state,
    logs: join(state, 'logs'),
    config: join(env.XDG_CONFIG_HOME || join(user, '.config'), 'roomd'),
  }
}

/** Resolves symlinks of the part of the path that exists, so that two spellings of one home are one home. */
function resolveSymlinks(path: string): string {
  if (existsSync(path)) return realpathSync(path)
  const parent = resolve(path, '..')
  return parent === path
    ? path
    : join(resolveSymlinks(parent), path.slice(parent === '/' ? 1 : parent.length + 1))
}
