/**
 * The Jupyter connection file: where the kernel binds its five channels and the key its messages are signed with. ipc endpoints
 * lie in a folder of our own, so nobody else can take them. TCP ports can only be reserved by trying: they are free when we
 * look and may be taken when the kernel binds, so a launch that fails for it is repeated with others.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { replaceFile } from '../../protocol/small-files.ts'

export interface ConnectionInfo {
  readonly transport: 'ipc' | 'tcp'
  readonly ip: string
  readonly shell_port: number
  readonly iopub_port: number
  readonly stdin_port: number
  readonly control_port: number
  readonly hb_port: number
  readonly key: string
  readonly signature_scheme: 'hmac-sha256'
}

export type Channel = 'shell' | 'iopub' | 'stdin' | 'control'

/** Endpoint in ZeroMQ's terms, built as Jupyter builds it. */
export function endpoint(info: ConnectionInfo, channel: Channel): string {
  const port = info[`${channel}_port`]
  return info.transport === 'ipc' ? `ipc://${info.ip}-${port}` : `tcp://${info.ip}:${port}`
}

/** Endpoints `<folder>/k-1` … `k-5`; files that an earlier kernel left there are removed. */
export function ipcConnection(folder: string): ConnectionInfo {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (const name of readdirSync(folder)) if (/^k-\d$/.test(name)) rmSync(join(folder, name))
  return withPorts('ipc', join(folder, 'k'), [1, 2, 3, 4, 5])
}

/** Five ports of 127.0.0.1 that nobody listens on just now. */
export async function tcpConnection(): Promise<ConnectionInfo> {
  const ports = new Set<number>()
  // Below the range that systems give to outgoing connections: a dialler waiting for such a port could be given that very port
  // and would then be connected to itself.
  for (let tries = 0; ports.size < 5; tries++) {
    if (tries > 500) throw new Error('no five free TCP ports on 127.0.0.1 between 20000 and 32000')
    const port = randomInt(20_000, 32_000)
    if (!ports.has(port) && (await isFree(port))) ports.add(port)
  }
  return withPorts('tcp', '127.0.0.1', [...ports])
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

function withPorts(transport: 'ipc' | 'tcp', ip: string, ports: readonly number[]): ConnectionInfo {
  const [shell = 0, iopub = 0, stdin = 0, control = 0, hb = 0] = ports
  return {
    transport,
    ip,
    shell_port: shell,
    iopub_port: iopub,
    stdin_port: stdin,
    control_port: control,
    hb_port: hb,
    key: randomBytes(32).toString('hex'),
    signature_scheme: 'hmac-sha256',
  }
}

export function writeConnectionFile(path: string, info: ConnectionInfo): void {
  replaceFile(path, JSON.stringify(info), { outlives: 'process' })
}
