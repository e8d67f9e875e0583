/** Who is let in by the HTTP listener, and what it says of itself. */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { roomd } from '../support/command.ts'
import { HttpFixture } from './support.ts'

let http: HttpFixture
let room: string
beforeAll(async () => {
  http = await HttpFixture.start({ http: { hosts: ['notebooks.example.org'] } })
  room = await http.room('a.ipynb', ['1'])
})
afterAll(() => http.dispose())

const cookieOf = (setCookie: string | undefined): string => setCookie?.split(';', 1)[0] ?? ''

describe('the listener', () => {
  test('is told by status and daemon.json, and its secrets are the owner’s alone', async () => {
    expect(http.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    const written = JSON.parse(readFileSync(http.home.places.daemonJson, 'utf8'))
    expect(written).toMatchObject({ http: http.url, http_port: http.port })
    const mode = statSync(join(http.home.places.state, 'token')).mode & 0o777
    expect(mode).toBe(0o600)
  })

  test('answers /healthz to everybody', async () => {
    const { status, text } = await http.get('/healthz', { host: 'evil.example' })
    expect(status).toBe(200)
    expect(JSON.parse(text)).toEqual({ status: 'ok', boot_id: http.owner.daemon?.boot_id })
  })

  test('shows what the daemon counts', async () => {
    const { status, text, headers } = await http.getAsOwner('/metrics')
    expect(status).toBe(200)
    expect(headers['content-type']).toContain('text/plain')
    expect(text).toMatch(/^roomd_rooms 1$/m)
    expect(text).toMatch(/^roomd_commit_latency_seconds_count [1-9]\d*$/m)
    expect(text).toContain('nodejs_eventloop_lag_seconds')
    expect(text).toMatch(/^roomd_bytes_total\{transport="unix",direction="in"\} [1-9]/m)
  })

  test('says at / what it is, and that nothing of it may be framed or guessed', async () => {
    const { status, text, headers } = await http.getAsOwner('/')
    expect(status).toBe(200)
    expect(text).toContain('roomd daemon')
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers['content-security-policy']).toContain("frame-ancestors 'none'")
  })
})

describe('a request without a valid token', () => {
  test.each(['/', '/metrics', `/blob/${'0'.repeat(64)}`, '/v1/socket', '/nothing'])(
    'for %s is 401',
    async (path) => {
      const plain = await http.get(path)
      expect(plain.status).toBe(401)
      expect(plain.headers['www-authenticate']).toContain('Bearer')
      expect(JSON.parse(plain.text)).toMatchObject({ error: { code: 'unauthorized' } })
      expect((await http.get(path, { authorization: 'Bearer roomd_wrong' })).status).toBe(401)
      expect((await http.get(path, { authorization: `Basic ${http.ownerToken}` })).status).toBe(401)
    },
  )

  test('is no WebSocket either', async () => {
    for (const path of ['/v1/socket', `/yjs/${room}`]) {
      expect((await http.upgrade(path)).status).toBe(401)
      expect((await http.upgrade(`${path}?token=wrong`)).status).toBe(401)
      expect((await http.upgrade(path, { authorization: 'Bearer wrong' })).status).toBe(401)
    }
  })

  test('a long-lived token in the query is none', async () => {
    expect((await http.get(`/?token=${http.ownerToken}`)).status).toBe(401)
    expect((await http.upgrade(`/v1/socket?token=${http.ownerToken}`)).status).toBe(401)
  })
})

describe('a request that is not meant for us, or comes from another page,', () => {
  test.each([
    ['a name that points here', { host: 'evil.example' }],
    ['our name with another port', { host: '127.0.0.1:1' }],
    ['another origin', { origin: 'http://evil.example' }],
    ['our host with another port as origin', { origin: 'http://localhost:1' }],
    ['an origin of no name', { origin: 'null' }],
    ['another page’s image', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }],
  ])('by %s is 403, whatever its token', async (_name, headers) => {
    const answer = await http.getAsOwner('/metrics', headers)
    expect(answer.status).toBe(403)
    expect(JSON.parse(answer.text)).toMatchObject({ error: { code: 'forbidden' } })
    const authorization = `Bearer ${http.ownerToken}`
    for (const path of ['/v1/socket', `/yjs/${room}`])
      expect((await http.upgrade(path, { authorization, ...headers })).status).toBe(403)
  })

  test('our own names and origins pass, and those of the settings', async () => {
    for (const name of ['127.0.0.1', 'localhost', '[::1]']) {
      const host = `${name}:${http.port}`
      expect((await http.getAsOwner('/metrics', { host, origin: `http://${host}` })).status).toBe(200)
    }
    const host = 'notebooks.example.org'
    expect((await http.getAsOwner('/metrics', { host, origin: `https://${host}` })).status).toBe(200)
  })
})

describe('a token for one use', () => {
  test('opens a page once and leaves a cookie, which opens the rest', async () => {
    const { token, token_id } = await http.token({ scope: 'owner', once: true })
    expect(token_id).toBe(null)
    const first = await http.get(`/?token=${token}`)
    expect(first.status).toBe(200)
    const setCookie = first.headers['set-cookie']?.[0]
    expect(setCookie).toMatch(new RegExp(`^roomd-${http.port}=`))
    expect(setCookie).toContain('HttpOnly')
    expect(setCookie).toContain('SameSite=Strict')
    expect((await http.get(`/?token=${token}`)).status).toBe(401)
    const cookie = cookieOf(setCookie)
    expect((await http.get('/metrics', { cookie })).status).toBe(200)
    expect((await http.upgrade('/v1/socket', { cookie, origin: http.url })).status).toBe(101)
    expect((await http.upgrade('/v1/socket', { cookie, origin: 'http://localhost:1' })).status).toBe(403)
    // A page that is loaded again still has it in its address.
    expect((await http.get(`/?token=${token}`, { cookie })).status).toBe(200)
    const [name, value = ''] = cookie.split('=')
    for (const wrong of [`${name}=${value.slice(0, -2)}xx`, `roomd-1=${value}`, `${name}=`, `${name}=a.b`])
      expect((await http.get('/metrics', { cookie: wrong })).status).toBe(401)
  })

  test('opens a WebSocket once, and not a figure or a blob', async () => {
    const { token } = await http.token({ scope: 'viewer', once: true })
    expect((await http.get(`/metrics?token=${token}`)).status).toBe(401)
    const first = await http.upgrade(`/yjs/${room}?token=${token}`)
    expect(first.status).toBe(101)
    expect(first.setCookie).toContain(`roomd-${http.port}=`)
    expect((await http.upgrade(`/yjs/${room}?token=${token}`)).status).toBe(401)
  })

  test('two pages with a room each do not shut each other out', async () => {
    const other = await http.room('b.ipynb', ['1'])
    const one = await http.token({ scope: 'owner', once: true, notebook_id: room })
    const two = await http.token({ scope: 'owner', once: true, notebook_id: other })
    const first = cookieOf((await http.get(`/?token=${one.token}`)).headers['set-cookie']?.[0])
    expect((await http.upgrade(`/yjs/${other}`, { cookie: first })).status).toBe(403)
    const answer = await http.get(`/?token=${two.token}`, { cookie: first })
    const both = cookieOf(answer.headers['set-cookie']?.[0])
    for (const id of [room, other])
      expect((await http.upgrade(`/yjs/${id}`, { cookie: both })).status).toBe(101)
    expect((await http.get('/metrics', { cookie: both })).status).toBe(403)
  })
})

describe('addresses', () => {
  test.each([
    '/blob/../../state/token',
    '/blob/..%2f..%2fstate%2ftoken',
    '/blob/%2e%2e/token',
    `/blob/${'A'.repeat(64)}`,
    `/blob/${'0'.repeat(63)}`,
    `/blob/${'0'.repeat(64)}/..`,
    '//healthz',
    '/nothing',
  ])('%s leads nowhere', async (path) => {
    const { status, text } = await http.getAsOwner(path)
    expect(status).toBe(404)
    expect(text).not.toContain(http.ownerToken)
  })

  test('only reading is answered, and WebSocket addresses say what they are', async () => {
    for (const method of ['POST', 'PUT', 'DELETE'])
      expect((await http.getAsOwner('/', {}, method)).status).toBe(405)
    expect((await http.getAsOwner('/v1/socket')).status).toBe(426)
    expect((await http.getAsOwner('/', {}, 'HEAD')).body.length).toBe(0)
  })
})

test('roomd open prints an address that works once', async () => {
  const printed = await roomd(http.home, ['open', 'a.ipynb', '--print'])
  expect(printed).toMatchObject({ code: 0, stderr: '' })
  const url = new URL(printed.stdout.trim())
  expect(url.origin).toBe(http.url)
  expect(url.searchParams.get('notebook')).toBe(room)
  const { status } = await http.get(`${url.pathname}${url.search}`)
  expect(status).toBe(200)
  expect((await http.get(`${url.pathname}${url.search}`)).status).toBe(401)
  const json = await roomd(http.home, ['open', '--json'])
  expect(JSON.parse(json.stdout)).toMatchObject({ url: expect.stringContaining(`${http.url}/?token=`) })
})

test('roomd token makes, lists and ends tokens; an ended one ends its connections', async () => {
  const made = await roomd(http.home, [
    'token',
    'create',
    '--scope',
    'editor',
    '--room',
    'a.ipynb',
    '--label',
    'CI',
  ])
  expect(made.code).toBe(0)
  const token = made.stdout.trim()
  expect(readFileSync(join(http.home.places.state, 'tokens.json'), 'utf8')).not.toContain(token)
  const listed = JSON.parse((await roomd(http.home, ['token', 'list', '--json'])).stdout)
  expect(listed.tokens).toMatchObject([{ label: 'CI', scope: 'editor', notebook_id: room, expires_at: null }])
  const client = await http.connect({ token })
  const lost = new Promise((resolve) =>
    client.on('daemon', ({ state }) => state === 'lost' && resolve(state)),
  )
  expect(client.welcome?.scope).toBe('editor')
  expect((await roomd(http.home, ['token', 'revoke', listed.tokens[0].token_id])).code).toBe(0)
  await lost
  await expect(client.call('ping', {})).rejects.toMatchObject({ code: 'unauthorized' })
  expect((await roomd(http.home, ['token', 'revoke', 'none'])).code).toBe(1)
})

test('nothing of a token is in the log', async () => {
  const log = readFileSync(join(http.home.places.logs, 'daemon.log'), 'utf8')
  expect(log).toContain('listening')
  expect(log).not.toContain(http.ownerToken)
  expect(log).not.toMatch(/once_[\w-]{20}/)
})

test('after a kill: the same port, the same tokens and cookies, and no token for one use', async () => {
  const page = await http.token({ scope: 'owner', once: true })
  const named = await http.token({ scope: 'viewer' })
  const unused = await http.token({ scope: 'owner', once: true })
  const cookie = cookieOf((await http.get(`/?token=${page.token}`)).headers['set-cookie']?.[0])
  const before = http.url
  await http.killAndStart()
  expect((await http.owner.call('status', {})).http).toBe(before)
  expect((await http.getAsOwner('/metrics')).status).toBe(200)
  expect((await http.get('/metrics', { cookie })).status).toBe(200)
  expect((await http.get('/metrics', { authorization: `Bearer ${named.token}` })).status).toBe(200)
  expect((await http.get(`/?token=${unused.token}`)).status).toBe(401)
})
