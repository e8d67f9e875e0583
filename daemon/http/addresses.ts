/** What an address means. Matched as it came, by whole patterns; nothing is decoded or resolved. */
import type { IncomingMessage } from 'node:http'

type Route = { readonly kind: 'frames' | 'yjs'; readonly name: string }

export function socketRoute(path: string): Route | null {
  if (path === '/v1/socket') return { kind: 'frames', name: '' }
  const yjs = /^\/yjs\/([^/]+)$/.exec(path)
  return yjs ? { kind: 'yjs', name: yjs[1] ?? '' } : null
}

export function addressOf(request: IncomingMessage): { path: string; query: URLSearchParams } {
  const url = request.url ?? ''
  const at = url.indexOf('?')
  return at < 0
    ? { path: url, query: new URLSearchParams() }
    : { path: url.slice(0, at), query: new URLSearchParams(url.slice(at + 1)) }
}
