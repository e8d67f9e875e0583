/** A real Jupyter Server, a relay before it, and a provider whose settings name the relay as the gateway `far`. */

import { type Bench, withKernels } from '../kernels/harness.ts'
import { JupyterServer } from '../support/jupyter-server.ts'
import { TcpRelay } from '../support/tcp-relay.ts'

export interface GatewayBench extends Bench {
  readonly server: JupyterServer
  readonly relay: TcpRelay
}

export async function withGateway(
  use: (bench: GatewayBench) => Promise<void>,
  options: readonly string[] = ['--ServerApp.limit_rate=False'],
): Promise<void> {
  const server = await JupyterServer.start(options)
  const relay = await TcpRelay.start(server.port)
  try {
    await withKernels((bench) => use({ ...bench, server, relay }), {
      gateways: [{ name: 'far', url: relay.url, token_env: 'FAR_TOKEN' }],
      variables: { FAR_TOKEN: server.token },
    })
  } finally {
    await relay.dispose()
    await server.dispose()
  }
}

/** The numbers that a cell printed, one a line. */
export function numbersIn(text: string): number[] {
  return text.trimEnd().split('\n').map(Number)
}
