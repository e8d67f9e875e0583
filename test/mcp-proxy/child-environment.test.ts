/** What of the proxy's environment a child gets, and which program it runs. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { childEnvironment, currentProgram } from '../../client/mcp-proxy/child-environment.ts'

test('strips what could redirect an installed proxy, when the caller does not set it', () => {
  const inherited = {
    PATH: '/bin',
    ROOMD_HOME: '/h',
    ROOMD_SOCKET: '/s',
    ROOMD_NO_AUTOSTART: '1',
    ROOMD_LOG_LEVEL: 'debug',
    ROOMD_DEV: '1',
    ROOMD_DEV_ROOT: '/src',
    ROOMD_REJOIN: '/n/other.ipynb',
    ROOMD_CLIENT_INSTANCE: 'other-proxy',
    NODE_PATH: '/src/node_modules',
    VSCODE_INSPECTOR_OPTIONS: '{}',
  }
  expect(childEnvironment(inherited, {})).toEqual({
    PATH: '/bin',
    ROOMD_HOME: '/h',
    ROOMD_SOCKET: '/s',
    ROOMD_NO_AUTOSTART: '1',
    ROOMD_LOG_LEVEL: 'debug',
  })
})

test('NODE_OPTIONS stays unless it loads code or inspects', () => {
  const kept = (options: string) => childEnvironment({ NODE_OPTIONS: options }, {}).NODE_OPTIONS
  expect(kept('--max-old-space-size=512 --use-openssl-ca')).toBe('--max-old-space-size=512 --use-openssl-ca')
  for (const options of [
    '--require /x/boot.js',
    '-r /x.js',
    '--import tsx',
    '--inspect-brk',
    '--no-warnings --loader x',
  ]) {
    expect(kept(options), options).toBeUndefined()
  }
})

test('preserves what the caller supplies, and removes what it says undefined', () => {
  expect(
    childEnvironment({ NODE_PATH: '/a', ROOMD_HOME: '/h' }, { NODE_PATH: '/b', ROOMD_HOME: undefined }),
  ).toEqual({
    NODE_PATH: '/b',
  })
})

test('the program is looked up afresh: a link that an upgrade switched leads to the new one', () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-program-')))
  for (const version of ['1', '2']) {
    mkdirSync(join(folder, version))
    writeFileSync(join(folder, version, 'roomd.js'), '')
  }
  const link = join(folder, 'roomd')
  symlinkSync(join(folder, '1', 'roomd.js'), link)
  expect(currentProgram(link).program).toBe(join(folder, '1', 'roomd.js'))
  rmSync(link)
  symlinkSync(join(folder, '2', 'roomd.js'), link)
  rmSync(join(folder, '1'), { recursive: true })
  expect(currentProgram(link)).toEqual({ node: process.execPath, program: join(folder, '2', 'roomd.js') })
  rmSync(folder, { recursive: true })
})
