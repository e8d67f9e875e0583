import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { programFile } from '../../protocol/programs.ts'

test('the demo ends with what survived the kill of the daemon', async () => {
  const demo = programFile('roomd').replace(/roomd\.js$/, 'demo.js')
  const { stdout } = await promisify(execFile)(process.execPath, [demo])
  const lines = stdout.trimEnd().split('\n').slice(-7)
  expect(lines[0]).toMatch(/^daemon killed \(SIGKILL\): pid \d+; started again: pid \d+$/)
  expect(lines[1]).toMatch(/^kernel pid before: (\d+), after: \1$/)
  expect(lines.slice(2, 6).map((line) => line.split(' = ')[0])).toEqual([
    'variable survived: total',
    'variable survived: wholeDay',
    'variable survived: worst',
    'variable survived: printed',
  ])
  expect(lines[6]).toBe('output lines: 40 of 40, each once')
})
