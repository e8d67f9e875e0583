import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openTestStore, seqs, temporaryFolder } from './opened.ts'
import { ROOM } from './statements.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Writes without end from 16 writers, and prints the number of each unit once it is acknowledged. */
async function writingProgram(folder: string, file: string): Promise<string> {
  const source = join(folder, 'writer.ts')
  writeFileSync(
    source,
    `
import { writeSync } from 'node:fs'
import pino from 'pino'
import { openStore } from ${JSON.stringify(join(root, 'daemon/store/open.ts'))}
import { addRoom, addUpdate } from ${JSON.stringify(join(root, 'test/store/statements.ts'))}
const store = await openStore({ file: ${JSON.stringify(file)}, log: pino({ level: 'silent' }) })
await store.write([addRoom()])
let seq = 0
await Promise.all(Array.from({ length: 16 }, async () => {
  for (;;) {
    const mine = ++seq
    await store.write([addUpdate(mine, new Uint8Array(mine % 5000))])
    writeSync(1, mine + '\\n')
  }
}))
`,
  )
  // In dist/, so that packages and our own programs are found from there as from any of our bundles.
  const bundle = join(root, 'dist', `test-store-writer-${process.pid}.mjs`)
  await build({
    entryPoints: [source],
    outfile: bundle,
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'error',
  })
  return bundle
}

describe('kill -9 in the middle of group commits', () => {
  it('leaves everything that was acknowledged', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'roomd.db')
    const program = await writingProgram(folder, file)
    onTestFinished(() => rmSync(program, { force: true }))
    const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] })
    const acknowledged: number[] = []
    const lines = createInterface({ input: child.stdout })
    lines.on('line', (line) => {
      acknowledged.push(Number(line))
      if (acknowledged.length === 3000) child.kill('SIGKILL')
    })
    await Promise.all([once(child, 'exit'), once(lines, 'close')])
    const store = await openTestStore(file)
    expect(store.health().state).toBe('ok')
    const there = new Set(seqs(store, ROOM))
    expect(acknowledged.length).toBeGreaterThanOrEqual(3000)
    expect(acknowledged.filter((seq) => !there.has(seq))).toEqual([])
  })
})
