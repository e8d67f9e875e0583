/**
 * The fastest kernel there can be: it publishes text made beforehand. `MESSAGES BYTES` as code prints BYTES bytes in lines of 100 as so
 * many messages.
 */
import { createHmac, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Publisher, Router } from 'zeromq'

const info = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const at = (port) => (info.transport === 'ipc' ? `ipc://${info.ip}-${port}` : `tcp://${info.ip}:${port}`)
const options = { sendHighWaterMark: 0 }
const sockets = {
  shell: new Router(options),
  control: new Router(options),
  stdin: new Router(options),
  heartbeat: new Router(options),
  iopub: new Publisher(options),
}
await sockets.shell.bind(at(info.shell_port))
await sockets.control.bind(at(info.control_port))
await sockets.stdin.bind(at(info.stdin_port))
await sockets.heartbeat.bind(at(info.hb_port))
await sockets.iopub.bind(at(info.iopub_port))

const session = randomUUID()
const pack = (msg_type, parent, content) => {
  const header = {
    msg_id: randomUUID(),
    session,
    username: '',
    date: new Date().toISOString(),
    msg_type,
    version: '5.3',
  }
  const body = typeof content === 'string' ? content : JSON.stringify(content)
  const parts = [JSON.stringify(header), parent, '{}', body]
  const signature = createHmac('sha256', info.key)
  for (const part of parts) signature.update(part)
  return ['<IDS|MSG>', signature.digest('hex'), ...parts]
}
const publish = (msg_type, parent, content) =>
  sockets.iopub.send([msg_type, ...pack(msg_type, parent, content)])

let count = 0
const serve = async (socket) => {
  for await (const parts of socket) {
    const start = parts.findIndex((part) => part.toString() === '<IDS|MSG>')
    const parent = parts[start + 2].toString()
    const content = JSON.parse(parts[start + 5].toString())
    const { msg_type } = JSON.parse(parent)
    await publish('status', parent, { execution_state: 'busy' })
    let reply = { status: 'ok' }
    if (msg_type === 'kernel_info_request')
      reply = {
        status: 'ok',
        protocol_version: '5.3',
        implementation: 'synthetic',
        implementation_version: '1',
        language_info: { name: 'none', version: '1', mimetype: 'text/plain', file_extension: '.txt' },
        banner: '',
      }
    else if (msg_type === 'execute_request') {
      const [messages = 0, bytes = 0] = content.code.split(' ').map(Number)
      await publish('execute_input', parent, { code: '', execution_count: ++count })
      const line = `${'x'.repeat(99)}\n`
      const text = line.repeat(Math.ceil(bytes / Math.max(1, messages) / line.length))
      const body = JSON.stringify({ name: 'stdout', text })
      for (let i = 0; i < messages; i++) await publish('stream', parent, body)
      reply = { status: 'ok', execution_count: count, payload: [], user_expressions: {} }
    }
    await socket.send([
      ...parts.slice(0, start),
      ...pack(msg_type.replace('_request', '_reply'), parent, reply),
    ])
    await publish('status', parent, { execution_state: 'idle' })
    if (msg_type === 'shutdown_request') setTimeout(() => process.exit(0), 50)
  }
}
serve(sockets.shell)
serve(sockets.control)
for await (const parts of sockets.heartbeat) await sockets.heartbeat.send(parts)
