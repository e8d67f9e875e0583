// Holds the direction of imports: protocol <- daemon, protocol <- client. Reads import statements as text (also type-only ones,
// which bundlers erase), so that no form of import escapes it.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/**
 * First rule whose folder holds the importing file: which folders of ours it may import; which packages it may not, or, where a
 * process is to stay small, which are the only ones it may (what Node brings is free).
 */
const rules = [
  { folder: 'protocol', may: ['protocol'], never: ['yjs', 'zeromq', 'better-sqlite3', 'esbuild'] },
  { folder: 'daemon/javascript-kernel', may: ['daemon/javascript-kernel'], never: ['better-sqlite3', 'yjs'] },
  // A host speaks to its kernel by ZeroMQ or by a WebSocket, and loads the one that it needs.
  { folder: 'daemon/kernel-host/remote', may: ['daemon/kernel-host', 'protocol'], only: ['ws', 'zod'] },
  { folder: 'daemon/kernel-host', may: ['daemon/kernel-host', 'protocol'], only: ['zeromq', 'zod'] },
  { folder: 'daemon', may: ['daemon', 'protocol'], never: ['@modelcontextprotocol/sdk', 'commander'] },
  { folder: 'client/sdk', may: ['client/sdk', 'protocol'], never: ['zeromq', 'better-sqlite3', 'esbuild'] },
  {
    folder: 'client/mcp-proxy',
    may: ['client/mcp-proxy', 'protocol'],
    never: ['yjs', 'zeromq', 'better-sqlite3', 'zod', '@modelcontextprotocol/sdk'],
  },
  {
    folder: 'client/mcp',
    may: ['client/mcp', 'client/sdk', 'protocol'],
    never: ['yjs', 'zeromq', 'better-sqlite3'],
  },
  { folder: 'client', may: ['client', 'protocol'], never: ['yjs', 'zeromq', 'better-sqlite3'] },
]

const importing =
  /(?:^|[\s;}])(?:import|export)\s*(?:type\s+)?(?:[\w*{}\s,$]+\s*from\s*)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/g

function* sources(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* sources(path)
    else if (/\.[cm]?tsx?$/.test(entry.name)) yield path
  }
}

function mayLoad(rule, wanted) {
  const isOf = (name) => wanted === name || wanted.startsWith(`${name}/`)
  if (rule.only) return wanted.startsWith('node:') || rule.only.some(isOf)
  return !rule.never.some(isOf)
}

const faults = []
let files = 0
for (const top of ['protocol', 'daemon', 'client']) {
  for (const file of sources(join(root, top))) {
    files++
    const place = relative(root, file)
    const rule = rules.find((r) => place.startsWith(`${r.folder}/`))
    for (const match of readFileSync(file, 'utf8').matchAll(importing)) {
      const wanted = match[1] ?? match[2]
      if (wanted.startsWith('.')) {
        const target = relative(root, resolve(dirname(file), wanted))
        if (!rule.may.some((folder) => target.startsWith(`${folder}/`)))
          faults.push(`${place}: may not import ${target}`)
      } else if (!mayLoad(rule, wanted)) {
        faults.push(`${place}: may not load ${wanted}`)
      }
    }
  }
}
if (faults.length > 0) {
  console.error(faults.join('\n'))
  process.exit(1)
}
console.log(`imports: ${files} files keep the direction`)
