import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer as createHttp, type Server } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { GatewaySettings } from '../../protocol/config.ts'
import { withKernels } from '../kernels/harness.ts'
import { createHome } from '../support/home.ts'
import { JupyterServer } from '../support/jupyter-server.ts'
import { needs } from '../support/machine.ts'
import { until } from '../support/until.ts'

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

/** What a start says, and what the list says. */
async function refusals(
  settings: Omit<GatewaySettings, 'name'>,
  variables: Record<string, string> = {},
): Promise<{ start: unknown; listed: string | undefined }> {
  let told: { start: unknown; listed: string | undefined } | undefined
  await withKernels(
    async ({ start, provider }) => {
      const failed = await start('far/python3').catch((error: unknown) => error)
      const listed = (await provider.specs()).find((spec) => spec.name === 'far/*')?.reason
      told = { start: failed, listed }
    },
    { gateways: [{ name: 'far', ...settings }], variables },
  )
  if (told === undefined) throw new Error('nothing was told')
  return told
}

test('a token that is wrong, missing or not configured, and a spec that is not there: each is one clear message', async (context) => {
  needs(context, 'Jupyter Server')
  const server = await JupyterServer.start()
  ends.push(() => server.dispose())
  const { url } = server
  const wrong = await refusals({ url, token_env: 'FAR_TOKEN' }, { FAR_TOKEN: 'not-the-token' })
  expect(wrong.start).toMatchObject({
    code: 'kernel_start_failed',
    retryable: false,
    message: expect.stringMatching(/refused us \(HTTP 40[13]\): it does not accept the token in FAR_TOKEN/),
  })
  expect(wrong.listed).toContain('does not accept the token in FAR_TOKEN')
  expect(JSON.stringify(wrong)).not.toContain('not-the-token')

  const unset = await refusals({ url, token_env: 'FAR_TOKEN' })
  expect(unset.listed).toContain(
    "FAR_TOKEN that should hold its token is not set in the daemon's environment",
  )
  expect((await refusals({ url })).listed).toContain('it wants a token: name the variable')

  await withKernels(
    async ({ start, provider }) => {
      await expect(start('far/nope')).rejects.toMatchObject({
        code: 'kernel_not_found',
        message: expect.stringMatching(/gateway "far" .* has no kernel "nope"; it offers: .*far\/python3/),
      })
      await expect(provider.choose({ name: 'far/nope', language: 'python' })).rejects.toMatchObject({
        code: 'kernel_not_found',
      })
    },
    { gateways: [{ name: 'far', url, token_env: 'FAR_TOKEN' }], variables: { FAR_TOKEN: server.token } },
  )

  const deeper = await refusals({ url: `${url}/deeper`, token_env: 'FAR_TOKEN' }, { FAR_TOKEN: server.token })
  expect(deeper.start).toMatchObject({
    retryable: false,
    message: expect.stringMatching(/has no api\/kernelspecs: is the URL right\?/),
  })

  const tls = await refusals({ url: url.replace('http:', 'https:') })
  expect(String(tls.start)).toMatch(/does not speak TLS there.* http:\/\/ instead of https:\/\//)
})

test('a server that is no Jupyter server, one that is not there, and one that asks for a login', async () => {
  const page = createHttp((_request, response) => response.end('<html>hello</html>'))
  const pageUrl = await listening(page, 'http')
  expect((await refusals({ url: pageUrl })).start).toMatchObject({
    retryable: false,
    message: expect.stringContaining('is no Jupyter server'),
  })

  await close(page)
  const away = await refusals({ url: pageUrl })
  expect(away.start).toMatchObject({
    code: 'kernel_start_failed',
    retryable: true,
    message: expect.stringMatching(/gateway "far" .* does not answer: .*ECONNREFUSED/),
  })

  const login = createHttp((_request, response) => response.writeHead(302, { Location: '/hub/login' }).end())
  expect((await refusals({ url: await listening(login, 'http') })).listed).toContain('refused us (HTTP 302)')
})

test('a certificate that nobody vouches for', async (context) => {
  needs(context, 'openssl')
  const home = createHome()
  ends.push(() => home.dispose())
  const [key, cert] = [join(home.work, 'key.pem'), join(home.work, 'cert.pem')]
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      key,
      '-out',
      cert,
      '-days',
      '2',
      '-subj',
      '/CN=localhost',
    ],
    { stdio: 'ignore' },
  )
  const secure = createHttps({ key: readFileSync(key), cert: readFileSync(cert) }, (_request, response) =>
    response.end('{}'),
  )
  expect((await refusals({ url: await listening(secure, 'https') })).start).toMatchObject({
    retryable: false,
    message: expect.stringMatching(
      /certificate of the gateway "far" .* is not trusted: .* NODE_EXTRA_CA_CERTS/,
    ),
  })
})

test('a gateway that never answers delays no list for long and no local kernel at all', async () => {
  let asked = 0
  const silent = createHttp(() => {
    asked++
  })
  const url = await listening(silent, 'http')
  await withKernels(
    async ({ start, provider }) => {
      const list = provider.specs()
      await until('the gateway to be asked', () => asked > 0)
      // The list is waiting for the gateway; this is not.
      const kernel = await start('javascript')
      expect(kernel.summary().state).toBe('idle')
      const entry = (await list).find((spec) => spec.source === 'gateway')
      expect(entry).toMatchObject({
        name: 'far/*',
        usable: false,
        reason: expect.stringContaining('has not answered yet'),
      })
      expect((await provider.choose({ language: 'javascript' })).name).toBe('javascript')
    },
    { gateways: [{ name: 'far', url }] },
  )
})

async function listening(server: Server, scheme: string): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => close(server))
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('no address')
  return `${scheme}://127.0.0.1:${address.port}`
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeAllConnections()
  await closed
}
