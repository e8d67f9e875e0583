import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { NotebookId } from '../../protocol/ids.ts'
import { needs } from '../support/machine.ts'
import { until } from '../support/until.ts'
import { Listener, withKernels } from './harness.ts'

const id = NotebookId.parse('00000000-0000-4000-8000-000000000001')

test('an R kernel runs on ipc like any other', (context) => {
  needs(context, 'R kernel')
  return withKernels(async ({ start }) => {
    const listener = new Listener(await start('ir'))
    const run = await listener.run('cat("hello from R\\n")')
    expect(listener.text(run)).toContain('hello from R')
    await listener.run('x <- 40')
    const sum = await listener.run('cat(x + 2)')
    expect(listener.text(sum)).toContain('42')
  })
})

test('a kernel that cannot start says why, with the last lines of its stderr', () =>
  withKernels(async ({ home, provider, store }) => {
    const folder = join(home.path, 'jupyter', 'kernels', 'broken')
    mkdirSync(folder, { recursive: true })
    const argv = [process.execPath, '-e', 'console.error("no module named heart"); process.exit(3)']
    writeFileSync(
      join(folder, 'kernel.json'),
      JSON.stringify({ argv, display_name: 'Broken', language: 'none' }),
    )
    home.env.JUPYTER_PATH = join(home.path, 'jupyter')
    const start = provider.start({ notebookId: id, name: 'broken', cwd: home.work, orphanGraceMs: null })
    await expect(start).rejects.toMatchObject({
      code: 'kernel_start_failed',
      message: expect.stringMatching(/exit code 3[\s\S]*no module named heart/),
    })
    expect(provider.running()).toEqual([])
    expect(store.all('SELECT * FROM kernels')).toEqual([])
  }))

test('a kernel whose interpreter is missing is not found, and the spec file is named', () =>
  withKernels(async ({ home, provider }) => {
    const folder = join(home.path, 'jupyter', 'kernels', 'missing')
    mkdirSync(folder, { recursive: true })
    const argv = ['/nowhere/bin/python', '-m', 'ipykernel_launcher', '-f', '{connection_file}']
    writeFileSync(
      join(folder, 'kernel.json'),
      JSON.stringify({ argv, display_name: 'Gone', language: 'python' }),
    )
    home.env.JUPYTER_PATH = join(home.path, 'jupyter')
    const start = provider.start({ notebookId: id, name: 'missing', cwd: home.work, orphanGraceMs: null })
    await expect(start).rejects.toMatchObject({
      code: 'kernel_not_found',
      message: expect.stringContaining(join(folder, 'kernel.json')),
    })
    await expect(start).rejects.toThrow('/nowhere/bin/python')
  }))

test('a kernel that cannot use ipc is started once more on tcp', (context) => {
  needs(context, 'Python kernel')
  return withKernels(async ({ home, provider }) => {
    const folder = join(home.path, 'jupyter', 'kernels', 'tcponly')
    mkdirSync(folder, { recursive: true })
    const script = [
      'import json, sys',
      'if json.load(open(sys.argv[2]))["transport"] != "tcp": sys.exit("transport not supported")',
      'from ipykernel.kernelapp import main',
      'main()',
    ].join('\n')
    const argv = ['/usr/bin/python3', '-c', script, '-f', '{connection_file}']
    writeFileSync(
      join(folder, 'kernel.json'),
      JSON.stringify({ argv, display_name: 'TCP', language: 'python' }),
    )
    home.env.JUPYTER_PATH = join(home.path, 'jupyter')
    const kernel = await provider.start({
      notebookId: id,
      name: 'tcponly',
      cwd: home.work,
      orphanGraceMs: null,
    })
    const listener = new Listener(kernel)
    expect(listener.result(await listener.run('6 * 7'))).toBe('42')
  })
})

test('the embedded kernel needs nothing but Node', () =>
  withKernels(async ({ start, provider }) => {
    const specs = await provider.specs()
    expect(specs.find((spec) => spec.name === 'javascript')).toMatchObject({
      source: 'embedded',
      usable: true,
    })
    const kernel = await start('javascript')
    const listener = new Listener(kernel)
    const run = await listener.run('console.log("hello"); 6 * 7')
    expect(listener.text(run)).toBe('hello\n')
    expect(listener.result(run)).toBe('42')
    await listener.run('const kept = 5')
    const endless = await listener.begin('console.log("spinning"); while (true) {}')
    await until('the loop to spin', () => listener.text(endless).includes('spinning'))
    await kernel.interrupt()
    await listener.settled(endless)
    expect(listener.result(await listener.run('kept'))).toBe('5')
  }))
