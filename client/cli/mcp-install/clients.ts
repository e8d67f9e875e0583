/**
 * Where each MCP client keeps its user-wide configuration, and what an entry in it looks like. As documented by each client:
 *   claude-code  ~/.claude.json (CLAUDE_CONFIG_DIR/.claude.json), `mcpServers`, JSON
 *   codex        ~/.codex/config.toml (CODEX_HOME/config.toml), `[mcp_servers.NAME]`, TOML
 *   cursor       ~/.cursor/mcp.json, `mcpServers`, JSON
 *   vscode       User/mcp.json of the editor's own folder, `servers`, JSON with comments
 *   zed          settings.json, `context_servers`, JSON with comments
 */
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { ServerCommand } from './server-command.ts'

export type ClientName = 'claude-code' | 'codex' | 'cursor' | 'vscode' | 'zed'

export interface ClientFile {
  readonly client: ClientName
  readonly path: string
  readonly format: 'json' | 'toml'
  /** Keys that lead to the table of servers. */
  readonly under: readonly string[]
  /** The entry's values. Keys that a user added beside them stay. */
  entry(server: ServerCommand): Readonly<Record<string, unknown>>
  /** What to do next. */
  readonly afterwards: string
}

/** The name of our entry. */
export const SERVER_NAME = 'roomd'

type Environment = Readonly<Record<string, string | undefined>>

export function clientFile(
  client: ClientName,
  env: Environment,
  platform: NodeJS.Platform = process.platform,
): ClientFile {
  const home = env.HOME || homedir()
  switch (client) {
    case 'claude-code':
      return {
        client,
        path: join(env.CLAUDE_CONFIG_DIR || home, '.claude.json'),
        format: 'json',
        under: ['mcpServers'],
        entry: stdioEntry,
        afterwards: 'Start Claude Code anew; /mcp shows the server.',
      }
    case 'codex':
      return {
        client,
        path: join(env.CODEX_HOME || join(home, '.codex'), 'config.toml'),
        format: 'toml',
        under: ['mcp_servers'],
        entry: plainEntry,
        afterwards: 'Start Codex anew; /mcp shows the server.',
      }
    case 'cursor':
      return {
        client,
        path: join(home, '.cursor', 'mcp.json'),
        format: 'json',
        under: ['mcpServers'],
        entry: stdioEntry,
        afterwards: 'Start Cursor anew; its MCP settings show the server.',
      }
    case 'vscode':
      return {
        client,
        path: join(codeFolder(env, home, platform), 'User', 'mcp.json'),
        format: 'json',
        under: ['servers'],
        entry: stdioEntry,
        afterwards: 'In VS Code, "MCP: List Servers" shows and starts it.',
      }
    case 'zed':
      return {
        client,
        path: join(zedFolder(env, home, platform), 'settings.json'),
        format: 'json',
        under: ['context_servers'],
        entry: (server) => ({ source: 'custom', ...plainEntry(server) }),
        afterwards: 'Zed takes it over at once; its agent settings show the server.',
      }
  }
}

function plainEntry({ command, args, env }: ServerCommand): Record<string, unknown> {
  return { command, args: [...args], ...(Object.keys(env).length === 0 ? {} : { env: { ...env } }) }
}

function stdioEntry(server: ServerCommand): Record<string, unknown> {
  return { type: 'stdio', ...plainEntry(server) }
}

function codeFolder(env: Environment, home: string, platform: NodeJS.Platform): string {
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'Code')
  if (platform === 'win32') return join(env.APPDATA || join(home, 'AppData', 'Roaming'), 'Code')
  return join(env.XDG_CONFIG_HOME || join(home, '.config'), 'Code')
}

function zedFolder(env: Environment, home: string, platform: NodeJS.Platform): string {
  if (platform === 'win32') return join(env.APPDATA || join(home, 'AppData', 'Roaming'), 'Zed')
  if (platform === 'darwin') return join(home, '.config', 'zed')
  return join(env.XDG_CONFIG_HOME || join(home, '.config'), 'zed')
}
