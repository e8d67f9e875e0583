/** A real Jupyter Server (`jupyter-server` where installed), driven as its own front ends drive it: REST and WebSocket. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:net'
import { WebSocket } from 'ws'
import type { TestHome } from '../support/home.ts'
import { pythonFile } from '../support/machine.ts'
import { until } from '../support/until.ts'

export interface JupyterServer {
  /** Runs code in its kernel; resolves when reply and idle are in. */
  execute(code: string): Promise<void>
  end(): Promise<void>
}

export async function startJupyterServer(home: TestHome, kernelName: string): Promise<JupyterServer> {
  const port = await freePort()
  const token = randomUUID()
  const options = [
    '--no-browser',
    '--allow-root',
    '--ServerApp.ip=127.0.0.1',
    `--ServerApp.port=${port}`,
    `--IdentityProvider.token=${token}`,
    `--ServerApp.token=${token}`,
    `--ServerApp.root_dir=${home.work}`,
  ]
  const child = spawn(pythonFile, ['-m', 'jupyter_server', ...options], {
    env: { ...home.env, HOME: home.path },
    cwd: home.work,
    stdio: 'ignore',
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const base = `http://127.0.0.1:${port}`
  const headers = { Authorization: `token ${token}`, 'Content-Type': 'application/json' }
  await until('Jupyter Server to answer', async () => (await fetch(`${base}/api/status`, { headers })).ok, {
    timeout: 60_000,
  })
  const made = await fetch(`${base}/api/kernels`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ name: kernelName }),
  })
  const kernel = (await made.json()) as { id: string }
  const session = randomUUID()
  const socket = new WebSocket(
    `ws://127.0.0.1:${port}/api/kernels/${kernel.id}/channels?session_id=${session}&token=${token}`,
  )
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
  })
  let running: { id: string; replied: boolean; idle: boolean; done: () => void } | null = null
  socket.on('message', (data) => {
    const message = JSON.parse(String(data)) as {
      msg_type?: string
      header: { msg_type: string }
      parent_header: { msg_id?: string }
      content: { execution_state?: string }
    }
    if (!running || message.parent_header.msg_id !== running.id) return
    const type = message.header.msg_type
    if (type.endsWith('_reply')) running.replied = true
    if (type === 'status' && message.content.execution_state === 'idle') running.idle = true
    if (running.replied && running.idle) running.done()
  })
  const send = (type: string, content: object) =>
    new Promise<void>((resolve) => {
      const id = randomUUID()
      running = { id, replied: false, idle: false, done: resolve }
      const header = {
        msg_id: id,
        session,
        username: 'bench',
        date: new Date().toISOString(),
        msg_type: type,
        version: '5.3',
      }
      socket.send(
        JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: 'shell', buffers: [] }),
      )
    })
  await send('kernel_info_request', {})
  return {
    execute: (code) =>
      send('execute_request', {
        code,
        silent: false,
        store_history: true,
        user_expressions: {},
        allow_stdin: false,
        stop_on_error: true,
      }),
    async end() {
      socket.close()
      child.kill('SIGTERM')
      await ended
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      )
    })
  })
}
