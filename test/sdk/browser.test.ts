/** What runs in browsers needs nothing of Node, and loads Yjs only when it is asked for. */
import { resolve } from 'node:path'
import { build, type Metafile } from 'esbuild'
import { expect, test } from 'vitest'

const entry = resolve(import.meta.dirname, '../../client/sdk/index.ts')

async function bundled(): Promise<Metafile> {
  const { metafile } = await build({
    entryPoints: [entry],
    bundle: true,
    splitting: true,
    outdir: 'out',
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'browser',
    external: ['node:*', 'yjs', 'y-protocols', 'ws'],
    logLevel: 'silent',
  })
  return metafile
}

/** All files that are loaded without an `import()` being run. */
function loadedAtOnce(metafile: Metafile): Set<string> {
  const start = Object.keys(metafile.inputs).find((file) => file.endsWith('client/sdk/index.ts')) as string
  const seen = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    for (const one of metafile.inputs[file]?.imports ?? [])
      if (one.kind === 'import-statement') visit(one.path)
  }
  visit(start)
  return seen
}

test('no module of Node is loaded outside the Node dialer', async () => {
  const metafile = await bundled()
  const users = Object.entries(metafile.inputs)
    .filter(([, input]) => input.imports.some(({ path }) => path.startsWith('node:')))
    .map(([file]) => file)
  const atOnce = loadedAtOnce(metafile)
  expect(users.length).toBeGreaterThan(0)
  expect(users.filter((file) => atOnce.has(file))).toEqual([])
})

test('Yjs, ws and the Node dialer are loaded when they are needed', async () => {
  const atOnce = [...loadedAtOnce(await bundled())]
  expect(
    atOnce.filter((file) => /yjs|y-protocols|(^|\/)ws(\/|$)|node-dialer|document\.ts/.test(file)),
  ).toEqual([])
})

test('no native module is loaded', async () => {
  const { inputs } = await bundled()
  expect(
    Object.keys(inputs).filter((file) => /\.node$|zeromq|better-sqlite3|msgpackr-extract/.test(file)),
  ).toEqual([])
})
