import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JupyterServer } from '../../support/jupyter-server.ts'
import { kernelBehaviour } from './behaviour.ts'
import { python } from './python.ts'

kernelBehaviour({
  title: 'ipykernel through a Jupyter Server',
  spec: 'far/python3',
  needs: ['Jupyter Server', 'Python kernel'],
  language: python,
  local: false,
  async surroundings(homePath) {
    const server = await JupyterServer.start(['--ServerApp.limit_rate=False'])
    const config = join(homePath, 'config')
    mkdirSync(config, { recursive: true })
    const gateways = [{ name: 'far', url: server.url, token_env: 'FAR_TOKEN' }]
    writeFileSync(
      join(config, 'config.json'),
      JSON.stringify({ kernels: { gateways }, pool: { generic: false } }),
    )
    return { variables: { FAR_TOKEN: server.token }, dispose: () => server.dispose() }
  },
})
