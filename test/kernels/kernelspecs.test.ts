import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { identify, isAlive, signalProcess } from '../../daemon/kernel-host/process-identity.ts'
import { treeOf } from '../../daemon/kernel-host/process-tree.ts'
import { captureLoginEnvironment } from '../../daemon/kernels/environment.ts'
import { specFolders } from '../../daemon/kernels/kernelspec-folders.ts'
import { chooseSpec, findKernelSpecs } from '../../daemon/kernels/kernelspecs.ts'
import { alive, gone, signal } from '../support/processes.ts'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'roomd-specs-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

function write(folder: string, name: string, spec: unknown): string {
  const path = join(folder, 'kernels', name)
  mkdirSync(path, { recursive: true })
  const file = join(path, 'kernel.json')
  writeFileSync(file, typeof spec === 'string' ? spec : JSON.stringify(spec))
  return file
}

const node = {
  argv: [process.execPath, '{resource_dir}/k.js', '{connection_file}'],
  display_name: 'N',
  language: 'n',
}

test('folders are searched in the order of jupyter --paths', () => {
  const base = { HOME: '/h', PATH: '' }
  const paths = (env: Record<string, string>) => specFolders(env, 'linux').map(({ path }) => path)
  expect(paths(base)).toEqual([
    '/h/.local/share/jupyter/kernels',
    '/usr/local/share/jupyter/kernels',
    '/usr/share/jupyter/kernels',
    '/h/.ipython/kernels',
  ])
  expect(paths({ ...base, JUPYTER_PATH: '/a:/b', VIRTUAL_ENV: '/venv' }).slice(0, 4)).toEqual([
    '/a/kernels',
    '/b/kernels',
    '/venv/share/jupyter/kernels',
    '/h/.local/share/jupyter/kernels',
  ])
  expect(paths({ ...base, CONDA_PREFIX: '/conda', CONDA_DEFAULT_ENV: 'base' }).slice(0, 2)).toEqual([
    '/h/.local/share/jupyter/kernels',
    '/conda/share/jupyter/kernels',
  ])
  expect(paths({ ...base, JUPYTER_DATA_DIR: '/data' })[0]).toBe('/data/kernels')
})

test('the first spec of a name wins, and what cannot be used is listed with its reason', async () => {
  const first = join(home, 'first')
  const second = join(home, 'second')
  const file = write(first, 'one', { ...node, env: { WHERE: `\${HOME}/x` }, interrupt_mode: 'message' })
  write(second, 'One', { ...node, display_name: 'shadowed' })
  const missing = write(second, 'missing', { ...node, argv: ['no-such-program-here'] })
  const broken = write(second, 'broken', '{"argv": [')
  const env = { HOME: home, PATH: '/usr/bin', JUPYTER_PATH: `${first}:${second}` }
  const specs = await findKernelSpecs(env)
  const named = (name: string) => specs.find((spec) => spec.name === name)
  expect(named('one')).toMatchObject({
    display_name: 'N',
    source: 'JUPYTER_PATH',
    path: file,
    usable: true,
    interruptMode: 'message',
    argv: [process.execPath, join(first, 'kernels', 'one', 'k.js'), '{connection_file}'],
    env: { WHERE: `${home}/x` },
  })
  expect(named('missing')?.usable).toBe(false)
  expect(named('missing')?.reason).toContain(missing)
  expect(named('missing')?.reason).toContain('no-such-program-here')
  expect(named('broken')?.reason).toContain(broken)
  expect(named('javascript')).toMatchObject({ source: 'embedded', language: 'javascript' })
})

test('a bare python is the interpreter of the environment that holds the spec', async () => {
  const bin = join(home, 'venv', 'bin')
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'python'), '#!/bin/sh\n')
  chmodSync(join(bin, 'python'), 0o755)
  write(join(home, 'venv', 'share', 'jupyter'), 'mine', {
    ...node,
    argv: ['python', '-f', '{connection_file}'],
  })
  const specs = await findKernelSpecs({ HOME: home, PATH: '/usr/bin', VIRTUAL_ENV: join(home, 'venv') })
  expect(specs.find((spec) => spec.name === 'mine')).toMatchObject({
    source: 'environment',
    argv: [join(bin, 'python'), '-f', '{connection_file}'],
  })
})

test('the kernel is chosen by name, then language, then python3, then javascript', () => {
  const spec = (name: string, language: string, usable = true) => ({
    name,
    language,
    usable,
    display_name: name,
    source: 'user',
    path: `/specs/${name}/kernel.json`,
    argv: ['x'],
    env: {},
    interruptMode: 'signal' as const,
    ...(usable ? {} : { reason: `/specs/${name}/kernel.json names x, which is not there` }),
  })
  const all = [
    spec('conda', 'python'),
    spec('python3', 'python'),
    spec('ir', 'R'),
    spec('broken', 'julia', false),
    spec('javascript', 'javascript'),
  ]
  expect(chooseSpec(all, { name: 'ir' }).name).toBe('ir')
  expect(chooseSpec(all, { name: 'gone', language: 'python' }).name).toBe('python3')
  expect(chooseSpec(all, { language: 'r' }).name).toBe('ir')
  expect(chooseSpec(all, {}).name).toBe('python3')
  expect(chooseSpec(all.slice(2), {}).name).toBe('javascript')
  expect(() => chooseSpec(all, { name: 'broken' })).toThrow('/specs/broken/kernel.json')
  expect(() => chooseSpec(all, { language: 'julia' })).toThrow('no kernel for julia')
  expect(() => chooseSpec(all, { name: 'gone' })).toThrow('no kernel "gone"; found: conda, python3')
})

test('the login shell gives the environment, whatever its profile prints', async () => {
  const shell = join(home, 'shell')
  writeFileSync(
    shell,
    '#!/bin/sh\necho "Welcome!"\nexport FROM_PROFILE="two\nlines"\nexport ROOMD_REJOIN=x\nshift 3\neval "$1"\necho bye\n',
  )
  chmodSync(shell, 0o755)
  const troubles: string[] = []
  const env = await captureLoginEnvironment({ SHELL: shell, PATH: process.env.PATH, OWN: '1' }, (t) =>
    troubles.push(t),
  )
  expect(troubles).toEqual([])
  expect(env).toMatchObject({ FROM_PROFILE: 'two\nlines', OWN: '1' })
  expect(env).not.toHaveProperty('ROOMD_REJOIN')
  expect(env).not.toHaveProperty('ROOMD_ASKS_ENVIRONMENT')
})

test('a login shell that hangs or fails leaves the daemon its own environment and a reason', async () => {
  const shell = join(home, 'shell')
  writeFileSync(shell, '#!/bin/sh\nsleep 600\n')
  chmodSync(shell, 0o755)
  const troubles: string[] = []
  const env = await captureLoginEnvironment({ SHELL: shell, PATH: '/usr/bin' }, (t) => troubles.push(t), 100)
  expect(env.PATH).toBe('/usr/bin')
  expect(troubles[0]).toContain('no answer')
  await captureLoginEnvironment({ SHELL: join(home, 'none'), PATH: '/usr/bin' }, (t) => troubles.push(t))
  expect(troubles[1]).toContain('ENOENT')
})

test('a pid that was given to another process is neither alive nor signalled', async () => {
  const child = spawn('sleep', ['600'])
  const pid = child.pid ?? 0
  try {
    const real = identify(pid)
    const other = { pid, started: (real.started ?? 0) - 1 }
    expect(isAlive(real)).toBe(true)
    expect(isAlive(other)).toBe(false)
    expect(signalProcess(other, 'SIGKILL')).toBe(false)
    expect(treeOf(other, 'no-kernel')).toEqual([])
    expect(alive(pid)).toBe(true)
    expect(signalProcess(real, 'SIGKILL')).toBe(true)
    await gone(pid)
    expect(isAlive(real)).toBe(false)
  } finally {
    signal(pid, 'SIGKILL')
  }
})
