/** A real Jupyter Server, a relay before it, and a provider whose settings name the relay as the gateway `far`. */

import { afterAll } from 'vitest'
import { type Bench, withKernels } from '../kernels/harness.ts'
import { JupyterServer } from '../support/jupyter-server.ts'
import { TcpRelay } from '../support/tcp-relay.ts'

export interface GatewayBench extends Bench {
  readonly server: JupyterServer
  readonly relay: TcpRelay
}

/** Servers that the next test of the file can use, by their options: starting one takes longer than most tests. */
const waiting = new Map<string, JupyterServer>()

afterAll(async () => {
  for (const server of waiting.values()) await server.dispose()
})

export async function withGateway(
  use: (bench: GatewayBench) => Promise<void>,
  options: readonly string[] = ['--ServerApp.limit_rate=False'],
): Promise<void> {
  const key = options.join(' ')
  const server = waiting.get(key) ?? (await JupyterServer.start(options))
  waiting.delete(key)
  const relay = await TcpRelay.start(server.port)
  let passed = false
  try {
    await withKernels((bench) => use({ ...bench, server, relay }), {
      gateways: [{ name: 'far', url: relay.url, token_env: 'FAR_TOKEN' }],
      variables: { FAR_TOKEN: server.token },
    })
    passed = true
  } finally {
    await relay.dispose()
    // As good as new, or gone.
    if (passed && (await endKernels(server))) waiting.set(key, server)
    else await server.dispose()
  }
}

/** Ends what the test left running. Returns whether the server does so; one that was killed or is stuck does not. */
async function endKernels(server: JupyterServer): Promise<boolean> {
  try {
    for (const { id } of await server.kernels()) await server.fetch('DELETE', `/api/kernels/${id}`)
    return (await server.kernels()).length === 0
  } catch {
    return false
  }
}

/** The numbers that a cell printed, one a line. */
export function numbersIn(text: string): number[] {
  return text.trimEnd().split('\n').map(Number)
}
