/** Reads a Jupyter connection file: where the five sockets bind and with which key messages are signed. */
import { readFileSync } from 'node:fs'

export interface ConnectionInfo {
  readonly transport: 'tcp' | 'ipc'
  /** An address for tcp, a path prefix for ipc. */
  readonly ip: string
  /** Empty: messages are not signed. */
  readonly key: string
  /** A node hash name, `sha256` for Jupyter's `hmac-sha256`. */
  readonly hash: string
  readonly ports: Readonly<Record<'shell' | 'iopub' | 'stdin' | 'control' | 'hb', number>>
}

/** Throws with one clear message when the file is missing or is not a connection file. */
export function readConnectionFile(path: string): ConnectionInfo {
  let value: unknown
  try {
    value = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new Error(`The connection file ${path} cannot be read: ${(error as Error).message}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw wrong(path, 'it is not a JSON object')
  const fields = value as Record<string, unknown>
  const transport = fields.transport ?? 'tcp'
  if (transport !== 'tcp' && transport !== 'ipc')
    throw wrong(path, `transport ${JSON.stringify(transport)} is not tcp or ipc`)
  const scheme = fields.signature_scheme ?? 'hmac-sha256'
  if (typeof scheme !== 'string' || !scheme.startsWith('hmac-'))
    throw wrong(path, 'signature_scheme is not hmac-…')
  const port = (name: string): number => {
    const number = fields[name]
    if (typeof number !== 'number' || !Number.isInteger(number) || number < 1)
      throw wrong(path, `${name} is not a port`)
    return number
  }
  return {
    transport,
    ip: typeof fields.ip === 'string' && fields.ip !== '' ? fields.ip : '127.0.0.1',
    key: typeof fields.key === 'string' ? fields.key : '',
    hash: scheme.slice('hmac-'.length),
    ports: {
      shell: port('shell_port'),
      iopub: port('iopub_port'),
      stdin: port('stdin_port'),
      control: port('control_port'),
      hb: port('hb_port'),
    },
  }
}

/** The ZeroMQ address of one channel, in the form Jupyter's clients use. */
export function endpoint(connection: ConnectionInfo, channel: keyof ConnectionInfo['ports']): string {
  const separator = connection.transport === 'tcp' ? ':' : '-'
  return `${connection.transport}://${connection.ip}${separator}${connection.ports[channel]}`
}

function wrong(path: string, reason: string): Error {
  return new Error(`${path} is not a Jupyter connection file: ${reason}`)
}
