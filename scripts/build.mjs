// Bundles every program with esbuild, so that it starts fast. Packages with native parts, and those of which a process may have
// only one copy (yjs), stay outside the bundles.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const outdir = resolve(root, 'dist')

const outside = ['better-sqlite3', 'zeromq', 'esbuild', 'yjs', 'y-protocols', 'lib0', 'sharp']

const entries = {
  roomd: 'client/cli/main.ts',
  daemon: 'daemon/main.ts',
  'store-writer': 'daemon/store/writer.ts',
  'file-worker': 'daemon/documents/file-worker.ts',
  'ledger-worker': 'daemon/ledger/tree/tree-worker.ts',
  'kernel-host': 'daemon/kernel-host/main.ts',
  'javascript-kernel': 'daemon/javascript-kernel/main.ts',
  client: 'client/sdk/index.ts',
  protocol: 'protocol/index.ts',
  'mcp-listing': 'client/mcp/listing.ts',
  demo: 'examples/demo.ts',
  bench: 'test/bench/main.ts',
}

// Some bundled CommonJS packages call require(); an ES module has none of its own.
const requireBanner =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);"

/** zod brings the messages of fifty languages; ours are in English, and every program would parse the rest at its start. */
const onlyEnglish = {
  name: 'only-english',
  setup({ onLoad }) {
    onLoad({ filter: /zod\/v4\/locales\/index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js'",
      loader: 'js',
    }))
  },
}

mkdirSync(outdir, { recursive: true })
const present = Object.entries(entries).filter(([, file]) => existsSync(resolve(root, file)))
for (const [name, file] of Object.entries(entries)) {
  if (!present.some(([n]) => n === name)) console.error(`build: ${file} is missing, ${name} is not built`)
}
const started = Date.now()
const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: Object.fromEntries(present),
  outdir,
  bundle: true,
  splitting: true,
  chunkNames: '[name]-[hash]',
  format: 'esm',
  platform: 'node',
  target: 'node20',
  sourcemap: 'linked',
  minifySyntax: true,
  external: outside,
  banner: { js: requireBanner },
  logLevel: 'warning',
  legalComments: 'none',
  metafile: true,
  plugins: [onlyEnglish],
})
// What the MCP server says of itself, so that its proxy can answer without loading it. Replaced in one step: a proxy may be reading.
const { listing } = await import(pathToFileURL(resolve(outdir, 'mcp-listing.js')).href)
const toolsFile = resolve(outdir, 'mcp-tools.json')
writeFileSync(`${toolsFile}.new`, `${JSON.stringify(listing())}\n`)
renameSync(`${toolsFile}.new`, toolsFile)

// Chunks of earlier builds. A process that was started from one of them may still load its parts for a while.
const fresh = new Set(Object.keys(metafile.outputs).map((file) => basename(file)))
for (const name of readdirSync(outdir)) {
  const file = resolve(outdir, name)
  if (!/\.js(\.map)?$/.test(name) || fresh.has(name) || Date.now() - statSync(file).mtimeMs < 3_600_000)
    continue
  rmSync(file)
}
console.error(`build: ${present.length} programs in ${Date.now() - started} ms`)
