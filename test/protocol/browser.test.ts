import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { describe, expect, it } from 'vitest'

describe('the wire in a browser', () => {
  it('needs no module of Node for handshake, endpoint, codec and WebSocket transport', async () => {
    const folder = fileURLToPath(new URL('../../protocol/wire/', import.meta.url))
    const result = await build({
      entryPoints: [`${folder}handshake.ts`, `${folder}websocket-transport.ts`],
      outdir: '/never-written',
      bundle: true,
      write: false,
      metafile: true,
      format: 'esm',
      platform: 'browser',
      logLevel: 'silent',
    })
    expect(result.errors).toEqual([])
    const inputs = Object.keys(result.metafile.inputs).join('\n')
    expect(inputs).toContain('wire/endpoint.ts')
    expect(inputs).not.toMatch(/socket-transport\.ts\n|wire\/dial\.ts|msgpackr-extract/)
  })
})
