// Bundles every program with esbuild, so that it starts fast. Packages with native parts, and those of which a process may have
// only one copy (yjs), stay outside the bundles.
import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const outdir = resolve(root, 'dist')

const outside = ['better-sqlite3', 'zeromq', 'esbuild', 'yjs', 'y-protocols', 'lib0']

const entries = {
  roomd: 'client/cli/main.ts',
  daemon: 'daemon/main.ts',
  'store-writer': 'daemon/store/writer.ts',
  'file-worker': 'daemon/documents/file-worker.ts',
  'kernel-host': 'daemon/kernel-host/main.ts',
  'javascript-kernel': 'daemon/javascript-kernel/main.ts',
  client: 'client/sdk/index.ts',
  protocol: 'protocol/index.ts',
  demo: 'examples/demo.ts',
  bench: 'test/bench/main.ts',
}

// Some bundled CommonJS packages call require(); an ES module has none of its own.
const requireBanner =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);"

mkdirSync(outdir, { recursive: true })
const present = Object.entries(entries).filter(([, file]) => existsSync(resolve(root, file)))
for (const [name, file] of Object.entries(entries)) {
  if (!present.some(([n]) => n === name)) console.error(`build: ${file} is missing, ${name} is not built`)
}
const started = Date.now()
// dist/types is written by the type checker; everything else here is ours to replace.
for (const old of ['chunks']) rmSync(resolve(outdir, old), { recursive: true, force: true })
await build({
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
})
console.error(`build: ${present.length} programs in ${Date.now() - started} ms`)
