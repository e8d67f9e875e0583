/** A real Jupyter Server on loopback with a token, for tests: started in a home of its own, ended by its pid. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pythonFile } from './machine.ts'
import { descendants, endTree, signal } from './processes.ts'
import { until } from './until.ts'

export interface RemoteKernelModel {
  readonly id: string
  readonly name: string
  readonly execution_state: string
}

export class JupyterServer {
  readonly port: number
  readonly token: string
  readonly #home: string
  readonly #options: readonly string[]
  #process: ChildProcess | null = null
  #said = ''

  private constructor(port: number, home: string, options: readonly string[]) {
    this.port = port
    this.token = randomBytes(16).toString('hex')
    this.#home = home
    this.#options = options
  }

  /** `options`: further arguments, such as `--ServerApp.limit_rate=False`. */
  static async start(options: readonly string[] = []): Promise<JupyterServer> {
    const home = mkdtempSync(join(tmpdir(), 'roomd-jupyter-'))
    const server = new JupyterServer(await freePort(), home, options)
    try {
      await server.start()
    } catch (error) {
      await server.dispose()
      throw error
    }
    return server
  }

  /** The last of what it logged. */
  get said(): string {
    return this.#said
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Starts the process, again after `stop` or `kill9`: the same address and token, none of the kernels. */
  async start(): Promise<void> {
    const child = spawn(
      pythonFile,
      [
        '-m',
        'jupyter_server',
        '--no-browser',
        '--allow-root',
        '--ServerApp.ip=127.0.0.1',
        `--ServerApp.port=${this.port}`,
        '--ServerApp.port_retries=0',
        `--ServerApp.token=${this.token}`,
        `--ServerApp.root_dir=${this.#home}`,
        ...this.#options,
      ],
      {
        cwd: this.#home,
        env: { PATH: process.env.PATH, HOME: this.#home, JUPYTER_NO_CONFIG: '1' },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    this.#process = child
    const listen = (text: Buffer): void => {
      this.#said = (this.#said + text.toString()).slice(-8_000)
    }
    child.stdout.on('data', listen)
    child.stderr.on('data', listen)
    await until(
      'Jupyter Server to answer',
      async () => {
        if (child.exitCode !== null) throw new Error(`Jupyter Server ended: ${this.#said}`)
        return (await this.fetch('GET', '/api/status').catch(() => null))?.ok === true
      },
      { timeout: 90_000, detail: () => this.#said },
    )
  }

  fetch(method: string, path: string, body?: unknown): Promise<Response> {
    return fetch(this.url + path, {
      method,
      headers: { Authorization: `token ${this.token}`, 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }

  async kernels(): Promise<RemoteKernelModel[]> {
    return (await (await this.fetch('GET', '/api/kernels')).json()) as RemoteKernelModel[]
  }

  /** SIGKILL to the server alone, as a crash; its kernels notice and end. */
  async kill9(): Promise<void> {
    const pid = this.#process?.pid
    if (pid === undefined) return
    const kernels = descendants(pid)
    const ended = new Promise((resolve) => this.#process?.once('exit', resolve))
    signal(pid, 'SIGKILL')
    await ended
    this.#process = null
    for (const kernel of kernels) signal(kernel, 'SIGKILL')
  }

  async dispose(): Promise<void> {
    const pid = this.#process?.pid
    if (pid !== undefined) await endTree(pid)
    rmSync(this.#home, { recursive: true, force: true })
  }
}

/**
 * A port that nobody has, and that the system gives to nobody: the server comes back to it after it was killed, and a port of those
 * that connections are given may be taken by then.
 */
async function freePort(): Promise<number> {
  for (let tries = 0; tries < 50; tries++) {
    const port = randomInt(10_000, 20_000)
    if (await isFree(port)) return port
  }
  throw new Error('no free port')
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
