// Bundles every program with esbuild, so that it starts fast. Packages with native parts, and those of which a process may have
// only one copy (yjs), stay outside the bundles.
import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const outdir = resolve(root, 'dist')

const outside = ['*.node', 'zeromq', 'esbuild', 'yjs', 'y-protocols', 'lib0', 'sharp']

const entries = {
  roomd: 'client/cli/main.ts',
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

/** Its JavaScript lies in the bundles, so that Node need not look for it in a dozen files; its binary is where its installation put it. */
const sqliteWithin = {
  name: 'sqlite-within',
  setup({ onLoad }) {
    onLoad({ filter: /better-sqlite3\/lib\/database\.js$/ }, async ({ path }) => {
      const search = "require('bindings')('better_sqlite3.node')"
      const contents = readFileSync(path, 'utf8')
      if (!contents.includes(search)) throw new Error(`${path} finds its binary in another way than it did`)
      return {
        contents: contents.replace(search, "require('better-sqlite3/build/Release/better_sqlite3.node')"),
        loader: 'js',
      }
    })
  },
}

/** The daemon's log writes its file itself (daemon/server/log.ts): what pino has for that would only be loaded. */
const ownLogFile = {
  name: 'own-log-file',
  setup({ onLoad }) {
    onLoad({ filter: /node_modules\/(sonic-boom\/index|thread-stream\/index)\.js$/ }, () => ({
      contents: 'module.exports = class NotBundled {}',
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
const common = {
  absWorkingDir: root,
  outdir,
  bundle: true,
  platform: 'node',
  target: 'node20',
  sourcemap: 'linked',
  minifySyntax: true,
  logLevel: 'warning',
  legalComments: 'none',
  metafile: true,
  plugins: [onlyEnglish, sqliteWithin, ownLogFile],
}
const script = {
  ...common,
  outExtension: { '.js': '.cjs' },
  format: 'cjs',
  charset: 'ascii',
  external: outside.filter((name) => !['yjs', 'y-protocols', 'lib0'].includes(name)),
}
// The daemon is one script, so that V8 can keep what it compiled (daemon/launch.ts); Yjs lies in it, the one copy of its thread.
const daemon = await build({
  ...script,
  entryPoints: { 'daemon-program': 'daemon/main.ts' },
  entryNames: '[name]-[hash]',
  define: { 'import.meta.url': '__moduleUrl' },
  banner: {
    js: "(function (exports, require, module, __filename, __dirname) { const __moduleUrl = require('node:url').pathToFileURL(__filename).href;",
  },
  footer: { js: '})' },
})
const daemonProgram = basename(
  Object.keys(daemon.metafile.outputs).find((file) => file.endsWith('.cjs')) ?? '',
)
const launcher = await build({
  ...script,
  entryPoints: { daemon: 'daemon/launch.ts' },
  define: { DAEMON_PROGRAM: JSON.stringify(daemonProgram), 'import.meta.url': '__moduleUrl' },
  banner: { js: "const __moduleUrl = require('node:url').pathToFileURL(__filename).href;" },
})
const { metafile } = await build({
  ...common,
  entryPoints: Object.fromEntries(present),
  splitting: true,
  chunkNames: '[name]-[hash]',
  format: 'esm',
  external: outside,
  banner: { js: requireBanner },
})
await keepCode()
// What the MCP server says of itself, so that its proxy can answer without loading it. Replaced in one step: a proxy may be reading.
const { listing } = await import(pathToFileURL(resolve(outdir, 'mcp-listing.js')).href)
const toolsFile = resolve(outdir, 'mcp-tools.json')
writeFileSync(`${toolsFile}.new`, `${JSON.stringify(listing())}\n`)
renameSync(`${toolsFile}.new`, toolsFile)

// Chunks of earlier builds. A process that was started from one of them may still load its parts for a while.
const outputs = [daemon.metafile, launcher.metafile, metafile].flatMap(({ outputs }) => Object.keys(outputs))
const fresh = new Set(outputs.map((file) => basename(file)))
const ofDaemon = daemonProgram.replace(/\.cjs$/, '-')
for (const name of readdirSync(outdir)) {
  const file = resolve(outdir, name)
  if (!/\.(c?js(\.map)?|cache)$/.test(name) || fresh.has(name) || name.startsWith(ofDaemon)) continue
  if (Date.now() - statSync(file).mtimeMs < 3_600_000) continue
  rmSync(file)
}
console.error(`build: ${present.length + 1} programs in ${Date.now() - started} ms`)

/** One run of the daemon in a home of its own leaves the compiled code beside the program; without it the first start is slower. */
async function keepCode() {
  const home = mkdtempSync(join(tmpdir(), 'roomd-build-'))
  try {
    mkdirSync(join(home, 'config'))
    const settings = JSON.stringify({ pool: { generic: false } })
    writeFileSync(join(home, 'config', 'config.json'), settings)
    const child = spawn(process.execPath, [resolve(outdir, 'daemon.cjs')], {
      env: { PATH: process.env.PATH, SHELL: '/bin/sh', ROOMD_HOME: home },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text) => {
      said += text
      if (said.includes('ready: ')) child.kill('SIGTERM')
    })
    const patience = setTimeout(() => child.kill('SIGKILL'), 30_000)
    const code = await new Promise((done) => {
      child.on('close', done)
      child.on('error', (error) => done(String(error)))
    })
    clearTimeout(patience)
    if (code !== 0)
      console.error(`build: the daemon's compiled code is not kept: it ended with ${code}\n${said}`)
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}
