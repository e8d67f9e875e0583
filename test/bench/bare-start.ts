/** The least there can be between wanting a kernel and its first result: a spawned process and two ZeroMQ sockets. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gone, signal } from '../support/processes.ts'
import { bareKernelClient } from './bare-zeromq.ts'

/** What a kernelspec starts. `path`: of its `kernel.json`, or of our own kernel's program. */
export interface BareSpec {
  readonly path: string
  readonly env: NodeJS.ProcessEnv
}

/** Milliseconds from the spawn to the end of the first execution. The kernel is ended behind it. */
export async function bareStart(spec: BareSpec, code: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'roomd-bare-'))
  const file = join(folder, 'connection.json')
  writeFileSync(
    file,
    JSON.stringify({
      transport: 'ipc',
      ip: join(folder, 'k'),
      key: randomUUID(),
      signature_scheme: 'hmac-sha256',
      shell_port: 1,
      iopub_port: 2,
      stdin_port: 3,
      control_port: 4,
      hb_port: 5,
    }),
  )
  const [program = '', ...args] = argvOf(spec.path).map((part) => part.replaceAll('{connection_file}', file))
  const start = performance.now()
  const child = spawn(program, args, { cwd: folder, env: spec.env, stdio: 'ignore' })
  try {
    const client = await bareKernelClient(file, 50)
    await client.execute(code)
    const took = performance.now() - start
    client.close()
    return took
  } finally {
    if (child.pid !== undefined) {
      signal(child.pid, 'SIGKILL')
      await gone(child.pid)
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

function argvOf(path: string): string[] {
  if (!path.endsWith('.json')) return [process.execPath, path, '{connection_file}']
  const { argv } = JSON.parse(readFileSync(path, 'utf8')) as { argv: string[] }
  return argv.map((part) => part.replaceAll('{resource_dir}', dirname(path)))
}
