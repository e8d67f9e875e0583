/** Tokens by themselves: what they allow, when they end, and that their files are secrets. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { COOKIE_MS, Cookies } from '../../daemon/http/cookies.ts'
import { TICKET_MS, Tokens } from '../../daemon/http/tokens.ts'
import { NotebookId } from '../../protocol/ids.ts'
import { ManualClock } from '../support/manual-clock.ts'

let folder: string
let clock: ManualClock
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'roomd-tokens-'))
  clock = new ManualClock()
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const room = NotebookId.parse('82de1f24-5b6c-4811-9b74-1eb2082fde7c')
const owner = (): string => readFileSync(join(folder, 'token'), 'utf8').trim()

test('the owner’s token is made once and stays', () => {
  const first = new Tokens(folder, clock)
  const token = owner()
  expect(token).toMatch(/^roomd_[\w-]{43}$/)
  for (const tokens of [first, new Tokens(folder, clock)])
    expect(tokens.find(token)).toEqual({ scope: 'owner', rooms: null, tokenId: null, expiresAt: null })
  expect(first.find(`${token}x`)).toBe(null)
  expect(first.redeem(token)).toBe(null)
})

test('a named token holds until it expires or is revoked, also for the next daemon', () => {
  const tokens = new Tokens(folder, clock)
  const short = tokens.create({ scope: 'editor', once: false, notebook_id: room, ttl_s: 60 })
  const long = tokens.create({ scope: 'viewer', once: false, label: 'a dashboard' })
  const next = new Tokens(folder, clock)
  expect(next.find(short.token)).toMatchObject({ scope: 'editor', rooms: new Set([room]) })
  expect(next.list().map(({ label }) => label)).toEqual(['', 'a dashboard'])
  clock.advance(60_000)
  expect(next.find(short.token)).toBe(null)
  expect(next.holds(short.token_id ?? '')).toBe(false)
  expect(next.list()).toHaveLength(1)
  const ended: string[] = []
  next.ended = (id) => ended.push(id)
  next.revoke(long.token_id ?? '')
  expect(ended).toEqual([long.token_id])
  expect(next.find(long.token)).toBe(null)
  expect(new Tokens(folder, clock).find(long.token)).toBe(null)
  expect(() => next.revoke(long.token_id ?? '')).toThrow(/no token/)
})

test('a ticket is good once, for two minutes, and in no other place', () => {
  const tokens = new Tokens(folder, clock)
  const used = tokens.create({ scope: 'owner', once: true })
  const late = tokens.create({ scope: 'owner', once: true })
  expect(tokens.find(used.token)).toBe(null)
  expect(tokens.redeem(used.token)).toMatchObject({ scope: 'owner' })
  expect(tokens.redeem(used.token)).toBe(null)
  clock.advance(TICKET_MS)
  expect(tokens.redeem(late.token)).toBe(null)
  expect(tokens.list()).toEqual([])
})

test('a file that others may read is refused, and so is one that holds something else', () => {
  new Tokens(folder, clock)
  chmodSync(join(folder, 'token'), 0o644)
  expect(() => new Tokens(folder, clock)).toThrow(/others may read it/)
  chmodSync(join(folder, 'token'), 0o600)
  writeFileSync(join(folder, 'token'), 'password')
  expect(() => new Tokens(folder, clock)).toThrow(/no token of ours/)
})

test('a cookie is ours alone, runs out, and is void when the owner’s token is another', () => {
  const tokens = new Tokens(folder, clock)
  const cookies = new Cookies(1234, tokens.cookieKey())
  const access = { scope: 'viewer', rooms: new Set([room]), tokenId: null, expiresAt: null } as const
  const cookie = cookies.write(access, null, 0).split(';', 1)[0] ?? ''
  expect(cookies.read(`other=1; ${cookie}`, COOKIE_MS - 1)).toMatchObject({
    scope: 'viewer',
    rooms: new Set([room]),
  })
  expect(cookies.read(cookie, COOKIE_MS)).toBe(null)
  expect(new Cookies(1235, tokens.cookieKey()).read(cookie, 0)).toBe(null)
  rmSync(join(folder, 'token'))
  expect(new Cookies(1234, new Tokens(folder, clock).cookieKey()).read(cookie, 0)).toBe(null)
})
