/** Where trees of the reference lie: the folders that its server and the programs around it have used, in the order of preference. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../../../protocol/places.ts'

/** All places, also those where there is nothing. */
export function usualRoots(env: Environment): string[] {
  const home = env.HOME || homedir()
  const claude = env.CLAUDE_HOME || join(home, '.claude')
  const roots = [
    env.CLAUDE_INSIGHT_DATA_DIR && join(env.CLAUDE_INSIGHT_DATA_DIR, 'config'),
    env.CLAUDE_WORKFLOW_ENGINE_DATA_DIR && join(env.CLAUDE_WORKFLOW_ENGINE_DATA_DIR, 'config'),
    join(claude, 'memory', 'config'),
    join(home, '.claude', 'memory', 'config'),
    join(home, '.claude', 'memory'),
    env.CLAUDE_IDE_DATA_DIR && join(env.CLAUDE_IDE_DATA_DIR, 'memory'),
    join(home, '.claude'),
  ]
  return [...new Set(roots.flatMap((root) => (root ? [root] : [])))]
}

const signs = ['.chain-index.json', '.current-session.json', 'sessions', '.state', 'logs/sessions']

export function isTree(folder: string): boolean {
  return signs.some((sign) => existsSync(join(folder, sign)))
}
