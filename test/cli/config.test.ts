import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { roomd } from '../support/command.ts'
import { withHome } from '../support/home.ts'

test('a setting is told with its default, set, told again, and taken back', () =>
  withHome(
    async (home) => {
      const file = (await roomd(home, ['config', 'path'])).stdout.trim()
      expect((await roomd(home, ['config', 'get', 'http.port'])).stdout.trim()).toBe('0')
      expect((await roomd(home, ['config', 'set', 'http.port', '8123'])).code).toBe(0)
      expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ http: { port: 8123 } })
      expect(JSON.parse((await roomd(home, ['config', 'get', '--json'])).stdout).http).toMatchObject({
        enabled: true,
        port: 8123,
      })
      await roomd(home, ['config', 'unset', 'http.port'])
      expect((await roomd(home, ['config', 'get', 'http.port'])).stdout.trim()).toBe('0')
    },
    {},
    null,
  ))

test.each([
  ['a value of the wrong range', ['http.port', '99999'], /http\.port/],
  ['a value of the wrong type', ['http.enabled', 'maybe'], /http\.enabled/],
  ['an unknown name', ['http.prot', '1'], /prot/],
  ['a name through a value', ['http.port.x', '1'], /http\.port/],
  ['no name', ['', '1'], /named by names/],
  ['a name of the language', ['__proto__.x', '1'], /named by names/],
])('%s is refused with its place, and the file stays', (_what, args, told) =>
  withHome(async (home) => {
    const file = (await roomd(home, ['config', 'path'])).stdout.trim()
    await roomd(home, ['config', 'set', 'http.enabled', 'false'])
    const before = readFileSync(file, 'utf8')
    const refused = await roomd(home, ['config', 'set', ...args])
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toMatch(told)
    expect(readFileSync(file, 'utf8')).toBe(before)
  }),
)

test.each([
  ['no JSON', '{"http": '],
  ['no object', '[1]'],
  ['a wrong setting', '{"http": {"port": "x"}}'],
])('a daemon does not start on settings that are %s, and says which file and why', (_what, text) =>
  withHome(async (home) => {
    const file = (await roomd(home, ['config', 'path'])).stdout.trim()
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    const started = await roomd(home, ['start'])
    expect(started.code).toBe(69)
    expect(started.stderr).toContain(file)
    expect(started.stderr).toMatch(/not JSON|one JSON object|http\.port/)
  }),
)
