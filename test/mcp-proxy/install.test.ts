/** `roomd mcp install`: the real files of five clients, merged and never damaged. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ClientName, clientFile } from '../../client/cli/mcp-install/clients.ts'
import { install } from '../../client/cli/mcp-install/install.ts'
import { setJsonEntry } from '../../client/cli/mcp-install/json-entry.ts'
import { parseJson } from '../../client/cli/mcp-install/json-with-comments.ts'
import { parseToml, TomlScalar } from '../../client/cli/mcp-install/toml.ts'
import { setTomlEntry } from '../../client/cli/mcp-install/toml-entry.ts'
import { roomd } from '../support/command.ts'
import { withHome } from '../support/home.ts'

const server = { command: '/usr/bin/roomd', args: ['mcp'], env: {} }
const clients: ClientName[] = ['claude-code', 'codex', 'cursor', 'vscode', 'zed']
let home: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'roomd-install-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

function put(path: string, content: string, mode = 0o600): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content, { mode })
}

test('where each client keeps its configuration', () => {
  const path = (client: ClientName, env: Record<string, string>, platform: NodeJS.Platform = 'linux') =>
    clientFile(client, { HOME: '/h', ...env }, platform).path
  expect(clients.map((client) => path(client, {}))).toEqual([
    '/h/.claude.json',
    '/h/.codex/config.toml',
    '/h/.cursor/mcp.json',
    '/h/.config/Code/User/mcp.json',
    '/h/.config/zed/settings.json',
  ])
  expect(path('claude-code', { CLAUDE_CONFIG_DIR: '/c' })).toBe('/c/.claude.json')
  expect(path('codex', { CODEX_HOME: '/x' })).toBe('/x/config.toml')
  expect(path('zed', { XDG_CONFIG_HOME: '/xdg' })).toBe('/xdg/zed/settings.json')
  expect(path('vscode', {}, 'darwin')).toBe('/h/Library/Application Support/Code/User/mcp.json')
  expect(path('zed', {}, 'darwin')).toBe('/h/.config/zed/settings.json')
})

for (const client of clients) {
  test(`${client}: a new file, once more without a change, a changed program with a backup`, () => {
    const target = clientFile(client, { HOME: home })
    const first = install(target, server, { print: false })
    expect(first).toMatchObject({ changed: true, backup: null })
    expect(readFileSync(target.path, 'utf8')).toBe(first.content)
    expect(install(target, server, { print: false })).toMatchObject({ changed: false, backup: null })
    const other = { ...server, args: ['mcp', '--no-start'], env: { ROOMD_HOME: '/r' } }
    const second = install(target, other, { print: false })
    expect(second.changed).toBe(true)
    expect(readFileSync(second.backup ?? '', 'utf8')).toBe(first.content)
    expect(install(target, other, { print: false }).changed).toBe(false)
    expect(readdirSync(dirname(target.path))).toHaveLength(2)
  })

  test(`${client}: a damaged file is told by place and is not touched`, () => {
    const target = clientFile(client, { HOME: home })
    const damaged = client === 'codex' ? '[mcp_servers\nx = 1\n' : '{"a": 1,\n "b" 2}'
    put(target.path, damaged)
    expect(() => install(target, server, { print: false })).toThrow(
      /cannot be read: line [12], column \d+: .*Nothing was changed/,
    )
    expect(readFileSync(target.path, 'utf8')).toBe(damaged)
    expect(readdirSync(dirname(target.path))).toHaveLength(1)
  })
}

test('entries as the clients document them', () => {
  const entry = (client: ClientName) => {
    const { content } = install(clientFile(client, { HOME: home }), server, { print: true })
    return client === 'codex' ? content : JSON.parse(content)
  }
  const stdio = { type: 'stdio', command: '/usr/bin/roomd', args: ['mcp'] }
  expect(entry('claude-code')).toEqual({ mcpServers: { roomd: stdio } })
  expect(entry('cursor')).toEqual({ mcpServers: { roomd: stdio } })
  expect(entry('vscode')).toEqual({ servers: { roomd: stdio } })
  expect(entry('zed')).toEqual({
    context_servers: { roomd: { source: 'custom', command: '/usr/bin/roomd', args: ['mcp'] } },
  })
  expect(entry('codex')).toBe('[mcp_servers.roomd]\ncommand = "/usr/bin/roomd"\nargs = ["mcp"]\n')
  expect(readdirSync(home)).toEqual([])
})

test('a link stays a link, and the mode stays', () => {
  const target = clientFile('claude-code', { HOME: home })
  const real = join(home, 'dotfiles', 'claude.json')
  put(real, '{"numStartups": 3}\n', 0o640)
  symlinkSync(real, target.path)
  install(target, server, { print: false })
  expect(JSON.parse(readFileSync(real, 'utf8'))).toMatchObject({ numStartups: 3, mcpServers: { roomd: {} } })
  expect(statSync(real).mode & 0o777).toBe(0o640)
})

describe('JSON with comments', () => {
  const set = (text: string) => setJsonEntry(text, ['servers', 'roomd'], { command: 'r', args: ['mcp'] })

  test('comments, order, other keys and trailing commas stay', () => {
    const before = `// my settings
{
    "theme": "dark", // of course
    /* servers */
    "servers": {
        "other": { "command": "x" }, // mine
        // the end
    },
}
`
    expect(set(before)).toBe(`// my settings
{
    "theme": "dark", // of course
    /* servers */
    "servers": {
        "other": { "command": "x" }, // mine
        // the end
        "roomd": {
            "command": "r",
            "args": [
                "mcp"
            ]
        },
    },
}
`)
  })

  test('an entry that is there keeps what a user added, and only what differs is written', () => {
    const before =
      '{"servers": {"roomd": {"env": {"A": "1"}, "command": "old", "args": ["mcp"], "disabled": true}}}'
    expect(set(before)).toBe(before.replace('"old"', '"r"'))
  })

  test('one line, an empty object, an empty file, CRLF, a byte order mark', () => {
    expect(JSON.parse(set('{}'))).toEqual({ servers: { roomd: { command: 'r', args: ['mcp'] } } })
    expect(JSON.parse(set('{"a":1}'))).toMatchObject({ a: 1, servers: {} })
    expect(JSON.parse(set('  \n'))).toHaveProperty('servers.roomd')
    const crlf = set('{\r\n  "a": 1\r\n}\r\n')
    expect(crlf.replaceAll('\r\n', '')).not.toContain('\n')
    expect(set('\ufeff{}').startsWith('\ufeff{')).toBe(true)
  })

  test('something else where the servers belong is refused', () => {
    expect(() => set('{"servers": []}')).toThrow('an object is expected here')
    expect(() => set('[]')).toThrow('an object is expected here')
  })

  test('it reads what JSON.parse reads, and refuses what is cut off', () => {
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, at) => {
        expect(parseJson(text)?.value).toEqual(JSON.parse(text))
        const cut = text.slice(0, at % text.length)
        let readable: unknown
        try {
          readable = JSON.parse(cut)
        } catch {
          if (cut.trim() !== '') expect(() => parseJson(cut)).toThrow()
          return
        }
        expect(parseJson(cut)?.value).toEqual(readable)
      }),
    )
  })

  test('for every object: all else is kept, and doing it again changes nothing', () => {
    const objects = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 5 })
    fc.assert(
      fc.property(objects, fc.constantFrom(0, 2, 4, '\t'), (object, indent) => {
        const { servers: _servers, ...rest } = object
        const once = set(JSON.stringify(rest, null, indent))
        expect(JSON.parse(once)).toEqual({
          ...JSON.parse(JSON.stringify(rest)),
          servers: { roomd: { command: 'r', args: ['mcp'] } },
        })
        expect(set(once)).toBe(once)
      }),
    )
  })
})

describe('TOML', () => {
  const entry = { command: 'r', args: ['mcp'], env: { ROOMD_HOME: '/r' } }
  const set = (text: string, values: Record<string, unknown> = entry) =>
    setTomlEntry(text, ['mcp_servers', 'roomd'], values)

  test('a table is added at the end, all else keeps its bytes', () => {
    const before = `# mine
model = "o4"   # the good one
[mcp_servers.other]
command = 'x'
[[profiles]]
name = "a"
[[profiles]]
name = "b"`
    expect(set(before)).toBe(`${before}

[mcp_servers.roomd]
command = "r"
args = ["mcp"]
env = { ROOMD_HOME = "/r" }
`)
  })

  test('a table that is there keeps what a user added, and only what differs is written', () => {
    const before = `[mcp_servers.roomd] # ours
command = "old" # where it is
startup_timeout_sec = 20
[mcp_servers.roomd.env]
MINE = "1"

[tui]
theme = "x"
`
    expect(set(before)).toBe(`[mcp_servers.roomd] # ours
command = "r" # where it is
startup_timeout_sec = 20
args = ["mcp"]
[mcp_servers.roomd.env]
MINE = "1"
ROOMD_HOME = "/r"

[tui]
theme = "x"
`)
  })

  test('inline tables and dotted keys are understood', () => {
    expect(set('[mcp_servers]\nroomd = { command = "old", enabled = true, n = 1_000 }\n')).toBe(
      '[mcp_servers]\nroomd = { command = "r", enabled = true, n = 1_000, args = ["mcp"], env = { ROOMD_HOME = "/r" } }\n',
    )
    expect(set('[mcp_servers]\nroomd.command = "r"\nroomd.env.A = "1"\n[z]\n')).toBe(
      '[mcp_servers]\nroomd.command = "r"\nroomd.env.A = "1"\nroomd.args = ["mcp"]\nroomd.env.ROOMD_HOME = "/r"\n[z]\n',
    )
    expect(
      set('"mcp_servers"."roomd" = { command = "r", args = ["mcp"], env = { ROOMD_HOME = "/r" } }'),
    ).toContain('"r"')
  })

  test('every kind of value is read over', () => {
    const text = `a = 1
b = -1.5e3
c = 0xff
d = 1979-05-27T07:32:00Z
e = 07:32:00
f = [1, 2, # three
  3,
]
g = """
many "quoted" \\
  lines"""
h = '''raw \\'''
i = { x = 1, y.z = "w" }
"quoted key" = inf
`
    const { pairs } = parseToml(text)
    expect(pairs).toHaveLength(10)
    expect(pairs[6]?.value).toBe('many "quoted" lines')
    expect(pairs[7]?.value).toBe('raw \\')
    expect(pairs[8]?.value).toEqual({ x: new TomlScalar('1'), y: { z: 'w' } })
    const once = set(text)
    expect(once.startsWith(text)).toBe(true)
    expect(set(once)).toBe(once)
  })

  test('what is no TOML, and something else where the table belongs, is refused', () => {
    for (const text of [
      'a',
      'a = ',
      'a = b',
      'a = "x',
      '[a',
      '[a]\n[a]',
      'a = 1\na = 2',
      'a = 1 b = 2',
      'a = [1',
      '= 1',
    ]) {
      expect(() => set(text), text).toThrow()
    }
    expect(() => set('mcp_servers = 3')).toThrow('mcp_servers is no table')
    expect(() => set('[[mcp_servers]]\nx = 1')).toThrow('is a list of tables')
  })

  test('strings come back as they went in', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.array(fc.string()), (command, args) => {
        const once = set('', { command, args })
        const values = Object.fromEntries(parseToml(once).pairs.map((pair) => [pair.path.at(-1), pair.value]))
        expect(values).toEqual({ command, args })
      }),
    )
  })
})

test('the command shows and writes it', () =>
  withHome(async (where) => {
    const env = { HOME: where.path, CODEX_HOME: join(where.path, 'codex') }
    const file = join(where.path, 'codex', 'config.toml')
    const shown = await roomd(where, ['mcp', 'install', '--client', 'codex', '--print'], { env })
    expect(shown.code).toBe(0)
    expect(shown.stdout).toContain('[mcp_servers.roomd]')
    expect(existsSync(file)).toBe(false)
    const written = await roomd(where, ['mcp', 'install', '--client', 'codex', '--json'], { env })
    expect(JSON.parse(written.stdout)).toMatchObject({ changed: true, path: file, backup: null })
    expect(readFileSync(file, 'utf8')).toBe(shown.stdout)
    expect(shown.stdout).toContain(`env = { ROOMD_HOME = ${JSON.stringify(where.path)} }`)
    writeFileSync(file, 'oh dear')
    const refused = await roomd(where, ['mcp', 'install', '--client', 'codex'], { env })
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain(`${file} cannot be read: line 1`)
    expect((await roomd(where, ['mcp', 'install', '--client', 'emacs'], { env })).code).toBe(2)
  }))
