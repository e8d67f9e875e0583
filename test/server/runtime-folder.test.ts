import {
  chmodSync,
  chownSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { prepareFolders } from '../../daemon/server/runtime-folder.ts'
import { resolvePlaces } from '../../protocol/places.ts'

const root = process.getuid?.() === 0
const NOBODY = 65534
let home: string
beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-folders-')))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

const mode = (path: string) => statSync(path).mode & 0o7777
function prepare(env: Record<string, string> = {}) {
  const all = { ROOMD_HOME: home, ...env }
  const places = resolvePlaces(all)
  prepareFolders(places, all)
  return places
}

describe('folders of a home', () => {
  test('are made for the owner alone, whatever the umask', () => {
    const before = process.umask(0)
    try {
      const places = prepare()
      for (const path of [places.runtime, places.state, places.data, places.logs, places.config]) {
        expect(mode(path)).toBe(0o700)
      }
    } finally {
      process.umask(before)
    }
  })

  test('that others may look into are closed', () => {
    mkdirSync(join(home, 'run'), { mode: 0o755 })
    prepare()
    expect(mode(join(home, 'run'))).toBe(0o700)
  })

  test('that others may write to are refused and left as they are', () => {
    mkdirSync(join(home, 'run'))
    chmodSync(join(home, 'run'), 0o777)
    expect(() => prepare()).toThrow(/will not use .*run: others can write to it \(mode 0777\).*chmod 700/)
    expect(mode(join(home, 'run'))).toBe(0o777)
  })

  test('that are files are refused', () => {
    writeFileSync(join(home, 'state'), '')
    expect(() => prepare()).toThrow(/will not use .*state: it is not a folder/)
  })

  test('behind a symlink of ours are followed and checked there', () => {
    mkdirSync(join(home, 'elsewhere'), { mode: 0o700 })
    symlinkSync(join(home, 'elsewhere'), join(home, 'data'))
    prepare()
    chmodSync(join(home, 'elsewhere'), 0o770)
    expect(() => prepare()).toThrow(/others can write/)
  })

  test('behind a symlink that leads nowhere are refused', () => {
    symlinkSync(join(home, 'missing'), join(home, 'run'))
    expect(() => prepare()).toThrow(/will not use .*run/)
  })

  test.runIf(root)('of another user are refused', () => {
    mkdirSync(join(home, 'run'))
    chownSync(join(home, 'run'), NOBODY, NOBODY)
    expect(() => prepare()).toThrow(/belongs to another user \(uid 65534\)/)
  })

  test.runIf(root)('behind a symlink of another user are refused', () => {
    mkdirSync(join(home, 'elsewhere'), { mode: 0o700 })
    symlinkSync(join(home, 'elsewhere'), join(home, 'run'))
    lchownSync(join(home, 'run'), NOBODY, NOBODY)
    expect(() => prepare()).toThrow(/symbolic link of another user/)
  })
})

describe('the folder of a socket that does not fit', () => {
  const long = () => join(home, 'x'.repeat(60), 'y'.repeat(60))

  test('lies in the runtime folder that the session gave', () => {
    const runtime = join(home, 'r')
    mkdirSync(runtime, { mode: 0o700 })
    const places = prepare({ ROOMD_HOME: long(), XDG_RUNTIME_DIR: runtime })
    expect(dirname(dirname(places.socket))).toBe(runtime)
    expect(mode(dirname(places.socket))).toBe(0o700)
  })

  test('is refused in a runtime folder that others may write to', () => {
    const runtime = join(home, 'r')
    mkdirSync(runtime)
    chmodSync(runtime, 0o770)
    expect(() => prepare({ ROOMD_HOME: long(), XDG_RUNTIME_DIR: runtime })).toThrow(/others can write/)
  })

  test('is refused when a link stands in its place', () => {
    const runtime = join(home, 'r')
    mkdirSync(runtime, { mode: 0o700 })
    const { socket } = prepare({ ROOMD_HOME: long(), XDG_RUNTIME_DIR: runtime })
    rmSync(dirname(socket), { recursive: true })
    mkdirSync(join(home, 'trap'), { mode: 0o700 })
    symlinkSync(join(home, 'trap'), dirname(socket))
    expect(() => prepare({ ROOMD_HOME: long(), XDG_RUNTIME_DIR: runtime })).toThrow(/is a symbolic link/)
    expect(lstatSync(dirname(socket)).isSymbolicLink()).toBe(true)
  })

  test('without one lies in a folder of the user in the temporary folder', () => {
    const before = process.env.TMPDIR
    process.env.TMPDIR = home
    try {
      const places = prepare({ ROOMD_HOME: long() })
      const shared = dirname(dirname(places.socket))
      expect(shared).toBe(join(home, `roomd-${process.getuid?.()}`))
      expect(mode(shared)).toBe(0o700)
      chmodSync(shared, 0o777)
      expect(() => prepare({ ROOMD_HOME: long() })).toThrow(/others can write/)
    } finally {
      if (before === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = before
    }
  })
})

describe('the folder of ROOMD_SOCKET', () => {
  test('may be one that all share if it is sticky', () => {
    expect(prepare({ ROOMD_SOCKET: join('/tmp', 'roomd-test-any.sock') }).socket).toBe(
      '/tmp/roomd-test-any.sock',
    )
  })

  test('is not changed, and refused when others can write to it', () => {
    const folder = join(home, 'sockets')
    mkdirSync(folder, { mode: 0o755 })
    chmodSync(folder, 0o755)
    prepare({ ROOMD_SOCKET: join(folder, 's') })
    expect(mode(folder)).toBe(0o755)
    chmodSync(folder, 0o775)
    expect(() => prepare({ ROOMD_SOCKET: join(folder, 's') })).toThrow(/choose another socket path/)
  })
})
