/** Short programs are started from a small shell: how they end is told exactly, and none outlives who asked for it. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { Launcher } from '../../daemon/projects/launcher.ts'
import { alive, gone, signal } from '../support/processes.ts'
import { until } from '../support/until.ts'

const base = { PATH: process.env.PATH ?? '/usr/bin:/bin', NAME: 'from the base' }

async function withLauncher(use: (launcher: Launcher, folder: string) => Promise<void>): Promise<void> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-launcher-')))
  const launcher = new Launcher(join(folder, 'brief'))
  try {
    await use(launcher, folder)
  } finally {
    launcher.dispose()
    rmSync(folder, { recursive: true, force: true })
  }
}

const options = (cwd: string) => ({ cwd, base, limitMs: 60_000, keep: 1024 * 1024 })

/** The shell of a launcher: its record says which. */
const shellOf = (folder: string): number =>
  (JSON.parse(readFileSync(join(folder, 'brief', 'shell.json'), 'utf8')) as { pid: number }).pid

test('arguments, environment, folder, output and exit code arrive as they are', () =>
  withLauncher(async (launcher, folder) => {
    const odd = 'it\'s "quoted", $HOME `x` \\ and\ntwo lines ; exit 3 #'
    const end = await launcher.run('printf', ['%s|', odd, '', 'ünï'], options(folder))
    expect(end).toEqual({
      code: 0,
      signal: null,
      stdout: `${odd}||ünï|`,
      stderr: '',
      ended: null,
      failure: null,
    })
    const script = 'pwd; echo "$NAME $OTHER"; cat; echo oops >&2; exit 7'
    const other = await launcher.run('sh', ['-c', script], { ...options(folder), env: { OTHER: "o'ther" } })
    expect(other).toMatchObject({ code: 7, stdout: `${folder}\nfrom the base o'ther\n`, stderr: 'oops\n' })
    expect(await launcher.run('no-such-program', [], options(folder))).toMatchObject({ code: 127 })
    const nowhere = await launcher.run('true', [], options(join(folder, 'not there')))
    expect(nowhere?.code).not.toBe(0)
    const killed = await launcher.run('sh', ['-c', 'kill -9 $$'], options(folder))
    expect(killed).toMatchObject({ code: null, signal: 'SIGKILL' })
    // Nothing is left of what they printed.
    expect(readdirSync(join(folder, 'brief'))).toEqual(['shell.json'])
  }))

test('many at once are each told their own end, from one shell', () =>
  withLauncher(async (launcher, folder) => {
    const ends = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        launcher.run('sh', ['-c', `echo ${n}; exit ${n}`], options(folder)),
      ),
    )
    expect(ends.map((end) => [end?.code, end?.stdout])).toEqual(ends.map((_, n) => [n, `${n}\n`]))
    const shell = shellOf(folder)
    await launcher.run('true', [], options(folder))
    expect(shellOf(folder)).toBe(shell)
    // Another environment is another shell; what the first one still runs ends in peace.
    const slow = launcher.run(
      'sh',
      ['-c', 'while [ ! -e go ]; do sleep 0.02; done; echo done'],
      options(folder),
    )
    await until('it', () => readdirSync(join(folder, 'brief')).some((name) => name.endsWith('.out')))
    const changed = { ...options(folder), base: { ...base, NAME: 'new' } }
    expect(await launcher.run('sh', ['-c', 'echo $NAME; touch go'], changed)).toMatchObject({
      stdout: 'new\n',
    })
    expect(await slow).toMatchObject({ code: 0, stdout: 'done\n' })
    await gone(shell)
  }))

test('what is called off, prints too much or takes too long is killed with what it started', () =>
  withLauncher(async (launcher, folder) => {
    const calling = new AbortController()
    const script = 'sleep 600 & echo $! > child; wait'
    const called = launcher.run('sh', ['-c', script], { ...options(folder), signal: calling.signal })
    const child = await until('the child', () => {
      const text = existsSync(join(folder, 'child')) ? readFileSync(join(folder, 'child'), 'utf8') : ''
      return text.endsWith('\n') ? Number(text) : undefined
    })
    calling.abort()
    expect(await called).toMatchObject({ code: null, signal: 'SIGKILL' })
    await gone(child)
    expect(
      await launcher.run('sleep', ['600'], { ...options(folder), signal: calling.signal }),
    ).toMatchObject({
      signal: 'SIGKILL',
    })
    expect(await launcher.run('sleep', ['600'], { ...options(folder), limitMs: 1 })).toMatchObject({
      ended: 'too_long',
    })
    expect(
      await launcher.run('printf', ['%s', 'x'.repeat(100)], { ...options(folder), keep: 99 }),
    ).toMatchObject({
      code: null,
      ended: 'too_much_output',
    })
  }))

test('a shell that is killed takes its programs with it, and the next program gets a new one', () =>
  withLauncher(async (launcher, folder) => {
    const running = launcher.run('sh', ['-c', 'echo $$ > mine; exec sleep 600'], options(folder))
    const pid = await until('its pid', () => {
      const text = existsSync(join(folder, 'mine')) ? readFileSync(join(folder, 'mine'), 'utf8') : ''
      return text.endsWith('\n') ? Number(text) : undefined
    })
    const shell = shellOf(folder)
    signal(shell, 'SIGKILL')
    expect(await running).toMatchObject({ code: null, signal: 'SIGKILL' })
    await gone(pid)
    expect(await launcher.run('echo', ['again'], options(folder))).toMatchObject({
      code: 0,
      stdout: 'again\n',
    })
    expect(shellOf(folder)).not.toBe(shell)
  }))

/** A process that starts a long program by a launcher, and tells the pids of shell and program. */
function owner(folder: string): ReturnType<typeof spawn> {
  const module = pathToFileURL(join(folder, 'launcher.mjs')).href
  const script = `
    const { Launcher } = await import(${JSON.stringify(module)})
    const launcher = new Launcher(${JSON.stringify(join(folder, 'brief'))})
    launcher.run('sh', ['-c', 'echo $$ > mine; exec sleep 600'], ${JSON.stringify(options(folder))})`
  return spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'inherit' })
}

test('when its owner is killed everything ends by itself; what a killed shell left is ended by the next owner', () =>
  withLauncher(async (launcher, folder) => {
    execFileSync(join('node_modules', '.bin', 'esbuild'), [
      join('daemon', 'projects', 'launcher.ts'),
      '--bundle',
      '--platform=node',
      '--format=esm',
      `--outfile=${join(folder, 'launcher.mjs')}`,
      '--log-level=error',
    ])
    const begun = async () => {
      rmSync(join(folder, 'mine'), { force: true })
      const child = owner(folder)
      const program = await until('its program', () => {
        const text = existsSync(join(folder, 'mine')) ? readFileSync(join(folder, 'mine'), 'utf8') : ''
        return text.endsWith('\n') ? Number(text) : undefined
      })
      return { owner: child.pid ?? 0, shell: shellOf(folder), program }
    }
    const first = await begun()
    signal(first.owner, 'SIGKILL')
    await gone(first.shell)
    await gone(first.program)

    const second = await begun()
    // Both at once: nobody is left who would end the program.
    signal(second.owner, 'SIGSTOP')
    signal(second.shell, 'SIGKILL')
    signal(second.owner, 'SIGKILL')
    await gone(second.owner)
    expect(alive(second.program)).toBe(true)
    launcher.endOrphans()
    await gone(second.program)
    expect(existsSync(join(folder, 'brief'))).toBe(false)
  }))

test('what runs in a shell of an earlier environment ends with the launcher too', () =>
  withLauncher(async (launcher, folder) => {
    const file = join(folder, 'pid')
    const long = launcher.run('sh', ['-c', `echo $$ > ${file}; exec sleep 600`], options(folder))
    const pid = await until('the program', () => existsSync(file) && Number(readFileSync(file, 'utf8')))
    await launcher.run('true', [], { ...options(folder), base: { ...base } })
    launcher.dispose()
    await gone(pid)
    expect(await long).toMatchObject({ signal: 'SIGKILL' })
  }))
