/** The least there can be between a program and a kernel: two ZeroMQ sockets on its connection file, JSON and HMAC. */
import { createHmac, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Dealer, Subscriber } from 'zeromq'

/** As a client that waits for a kernel would set it; ZeroMQ's own 100 ms would be most of a quick start. */
const RECONNECT_MS = 5

interface ConnectionFile {
  transport: string
  ip: string
  key: string
  shell_port: number
  iopub_port: number
}

export interface BareKernelClient {
  /** Runs code; resolves when the reply and the idle are in. */
  execute(code: string): Promise<void>
  close(): void
}

/**
 * Connects beside whoever else is connected to the kernel, which may still be starting. `askAgainMs`: how long an answer to the first
 * question is waited for before it is asked again.
 */
export async function bareKernelClient(connectionFile: string, askAgainMs = 200): Promise<BareKernelClient> {
  const info = JSON.parse(readFileSync(connectionFile, 'utf8')) as ConnectionFile
  const at = (port: number) =>
    info.transport === 'ipc' ? `ipc://${info.ip}-${port}` : `tcp://${info.ip}:${port}`
  const shell = new Dealer({ routingId: randomUUID(), reconnectInterval: RECONNECT_MS })
  const iopub = new Subscriber({ receiveHighWaterMark: 0, reconnectInterval: RECONNECT_MS })
  shell.connect(at(info.shell_port))
  iopub.connect(at(info.iopub_port))
  iopub.subscribe()
  const session = randomUUID()
  let running: { id: string; replied: boolean; idle: boolean; done: () => void } | null = null
  const settle = () => {
    if (running?.replied && running.idle) running.done()
  }
  const read = async (socket: AsyncIterable<Buffer[]>, take: (type: string, content: Buffer) => void) => {
    for await (const parts of socket) {
      const start = parts.findIndex((part) => part.toString() === '<IDS|MSG>')
      const [header, parent, content] = [parts[start + 2], parts[start + 3], parts[start + 5]]
      if (!header || !parent || !content || !running) continue
      if ((JSON.parse(parent.toString()) as { msg_id?: string }).msg_id !== running.id) continue
      take((JSON.parse(header.toString()) as { msg_type: string }).msg_type, content)
      settle()
    }
  }
  const reading = [
    read(shell, () => {
      if (running) running.replied = true
    }),
    read(iopub, (type, content) => {
      if (running && type === 'status' && content.includes('idle')) running.idle = true
    }),
  ]
  for (const loop of reading) loop.catch(() => undefined) // closed by close()

  const send = (type: string, content: object) =>
    new Promise<void>((resolve, reject) => {
      const id = randomUUID()
      running = { id, replied: false, idle: false, done: resolve }
      const parts = [
        {
          msg_id: id,
          session,
          username: 'bench',
          date: new Date().toISOString(),
          msg_type: type,
          version: '5.3',
        },
        {},
        {},
        content,
      ].map((part) => Buffer.from(JSON.stringify(part)))
      const signature = createHmac('sha256', info.key)
      for (const part of parts) signature.update(part)
      shell.send(['<IDS|MSG>', signature.digest('hex'), ...parts]).catch(reject)
    })
  // A late subscriber loses the first idle: ask until one comes through.
  for (;;) {
    const answered = await Promise.race([
      send('kernel_info_request', {}).then(() => true),
      new Promise<false>((resolve) => setTimeout(() => resolve(false), askAgainMs)),
    ])
    if (answered) break
  }
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
    close() {
      shell.close()
      iopub.close()
    },
  }
}
