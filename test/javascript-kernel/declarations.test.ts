import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KernelClient, streamText } from './kernel-client.ts'

let folder: string
let kernel: KernelClient
beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'jsk-cwd-')))
  writeFileSync(
    join(folder, 'local.mjs'),
    'export default "d"; export const named = 5; export { named as "odd name" }',
  )
  writeFileSync(join(folder, 'data.json'), '{"k": 1}')
  mkdirSync(join(folder, 'node_modules', 'old'), { recursive: true })
  writeFileSync(
    join(folder, 'node_modules', 'old', 'index.js'),
    'const o = {}; o["dyn" + "amic"] = 3; module.exports = o',
  )
  kernel = await KernelClient.start({ cwd: folder })
})
afterAll(async () => {
  await kernel.dispose()
  rmSync(folder, { recursive: true, force: true })
})

/** Runs the cells one after the other; each must succeed. Gives the last value. */
async function cells(...codes: string[]): Promise<string | undefined> {
  let value: string | undefined
  for (const code of codes) value = await kernel.value(code)
  return value
}

describe('declared again', () => {
  test.each([
    ['let then const', ['let v1 = 1', 'const v1 = 2; v1'], '2'],
    ['const then class', ['const V2 = 1', 'class V2 { get x() { return 5 } }\nnew V2().x'], '5'],
    ['class then class', ['class V3 {}', 'class V3 { static n = 7 }', 'V3.n'], '7'],
    ['function then let', ['function v4() { return 1 }', 'let v4 = 4; v4'], '4'],
    ['let then function', ['let v5 = 4', 'function v5() { return 9 }', 'v5()'], '9'],
    ['let without a value is undefined again', ['let v6 = 1', 'let v6', 'v6 === undefined'], 'true'],
    ['var without a value keeps it', ['var v7 = 1', 'var v7; v7'], '1'],
    [
      'object patterns',
      [
        'const { a1, b1: [c1, ...d1], e1 = 6, ...f1 } = { a1: 1, b1: [2, 3, 4], g1: 7 }',
        'const { a1 } = { a1: 9 }; [a1, c1, d1, e1, f1]',
      ],
      '[ 9, 2, [ 3, 4 ], 6, { g1: 7 } ]',
    ],
    [
      'patterns with await',
      [
        'const { a2, b2: [c2] } = await { a2: 1, b2: [2] }, e2 = 3',
        'let [a2, x2 = 5] = await [8]; [a2, c2, e2, x2]',
      ],
      '[ 8, 2, 3, 5 ]',
    ],
    ['sync then async', ['let v8 = 1', 'const v8 = await 2', 'v8'], '2'],
    ['async then sync', ['class V9 { a = 1 }; await 0', 'class V9 { a = 2 }', 'new V9().a'], '2'],
    [
      'var in loops and blocks',
      [
        'await 0; for (var i3 = 0, j3; i3 < 3; i3++) var k3 = i3\nfor (var x3 of [5]) {}\nif (1) { var y3 = 4 }',
        '[i3, k3, x3, y3, j3]',
      ],
      '[ 3, 2, 5, 4, undefined ]',
    ],
    ['loops with let stay private', ['await 0; for (let p4 of [1]) {}', 'typeof p4'], "'undefined'"],
    ['a global of Node', ['const crypto = 5', 'crypto'], '5'],
    ['a global of Node with await', ['const navigator = await 6', 'navigator'], '6'],
    [
      'exports are just declarations',
      ['export const e5 = 1\nexport default function e6() { return 2 }\nexport { e5 as q }', 'e5 + e6()'],
      '3',
    ],
    ['a line that begins with a bracket', ['let b7 = await 1\n;[2].length\nconst c7 = 3', 'b7 + c7'], '4'],
    [
      'no semicolons',
      ['const f8 = () => 1\nlet g8 = await f8()\nconst [h8] = [g8]\nlet k8 = h8\n', 'k8'],
      '1',
    ],
  ])('%s', async (_name, codes, expected) => {
    expect(await cells(...codes)).toBe(expected)
  })

  test('functions are hoisted, beside await too, and keep their order', async () => {
    expect(await cells('hoisted(); function hoisted() { return 3 }\nhoisted()')).toBe('3')
    expect(
      await cells(
        'const r9 = await hoisted2(); function hoisted2() { return 1 }\nfunction hoisted2() { return 2 }\nr9',
      ),
    ).toBe('2')
    expect(await cells('function first3() { return 1 }\nawait 0; first3()')).toBe('1')
  })

  test('functions of earlier cells see what is declared later', async () => {
    expect(
      await cells('const rate = 2; function price(n) { return n * rate }', 'const rate = 3', 'price(2)'),
    ).toBe('6')
    expect(
      await cells(
        'function inner4() { return 1 }\nfunction outer4() { return inner4() }; await 0',
        'function inner4() { return 2 }',
        'outer4()',
      ),
    ).toBe('2')
  })

  test('declaring one name twice in one cell is the error that it is in JavaScript', async () => {
    expect((await kernel.execute('let t5 = 1; let t5 = 2')).reply.ename).toBe('SyntaxError')
  })

  test('functions show their own source', async () => {
    const code = 'const own6 = async (x) => { const y = await x; return await\n f(await (await y)) }'
    await kernel.execute(code)
    expect(
      await kernel.value(
        'own6.toString() === "async (x) => { const y = await x; return await\\n f(await (await y)) }"',
      ),
    ).toBe('true')
    expect(
      await kernel.value(
        'Function.prototype.toString.call(Function.prototype.toString).includes("[native code]")',
      ),
    ).toBe('true')
  })

  test('nested awaits give what they should', async () => {
    expect(
      await cells(
        'async function n7(x) { return [await await x, await (await x) + 1, -await x, await (0, x)] }\nawait n7(Promise.resolve(2))',
      ),
    ).toBe('[ 2, 3, -2, 2 ]')
    expect(await cells('await await await 5')).toBe('5')
    expect(await cells('const s7 = []; for await (const x of [1, Promise.resolve(2)]) s7.push(x); s7')).toBe(
      '[ 1, 2 ]',
    )
    expect(
      await cells(
        'async function* g7() { yield 1; yield await 2 }\nconst t7 = []; for await (const x of g7()) { if (x > 1) break; t7.push(x) } t7',
      ),
    ).toBe('[ 1 ]')
  })
})

describe('modules', () => {
  test.each([
    ['import d1, { named, named as other } from "./local.mjs"\n[d1, named, other]', "[ 'd', 5, 5 ]"],
    ['import * as ns1 from "./local.mjs"; ns1.named', '5'],
    ['import d2, * as ns2 from "./local.mjs"; [d2, ns2.named]', "[ 'd', 5 ]"],
    ['import { "odd name" as odd } from "./local.mjs"; odd', '5'],
    ['import "./local.mjs"', undefined],
    ['import json from "./data.json" with { type: "json" }; json.k', '1'],
    ['import fs, { readFileSync } from "node:fs"; fs.readFileSync === readFileSync', 'true'],
    ['import { dynamic } from "old"; dynamic', '3'],
    ['(await import("./local.mjs")).named', '5'],
    ['require("./data.json").k', '1'],
    ['require("old").dynamic', '3'],
    ['require("path").basename(__dirname) === require("path").basename(process.cwd())', 'true'],
    ['require.resolve("old").endsWith("index.js")', 'true'],
    ['import.meta.url.startsWith("file:")', 'true'],
    ['const later = async () => (await import("./local.mjs")).default; await later()', "'d'"],
  ])('%s', async (code, expected) => {
    expect(await kernel.value(code)).toBe(expected)
  })

  test('importing warns of nothing; what a cell does that is experimental is told', async () => {
    await kernel.value('(await import("node:os")).EOL')
    await kernel.execute('process.emitWarning("of the cell", "ExperimentalWarning")')
    const told = () => streamText(kernel.log, 'stderr') + kernel.stderr
    await kernel.until(() => told().includes('ExperimentalWarning: of the cell'))
    expect(told().split('ExperimentalWarning').length - 1).toBe(1)
  })

  test('a name that a module does not export is an error', async () => {
    const { reply } = await kernel.execute('import { missing } from "./local.mjs"')
    expect(reply).toMatchObject({ ename: 'SyntaxError' })
    expect(reply.evalue).toContain("does not provide an export named 'missing'")
  })

  test('resolution follows the working directory', async () => {
    mkdirSync(join(folder, 'sub'))
    writeFileSync(join(folder, 'sub', 'local.mjs'), 'export const named = "sub"')
    expect(await cells('process.chdir("sub")', '(await import("./local.mjs")).named')).toBe("'sub'")
    expect(
      await cells('process.chdir("..")', 'require.resolve("./sub/local.mjs").endsWith("local.mjs")'),
    ).toBe('true')
  })

  test('an import can be made again and used by other cells', async () => {
    await cells('import { basename } from "node:path"', 'import { basename } from "node:path"')
    expect(streamText((await kernel.execute('console.log(basename("/a/b"))')).messages)).toBe('b\n')
  })
})
