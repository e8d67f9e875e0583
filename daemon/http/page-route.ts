/**
 * `/`: the console in the browser. Its files are served from here once there is one; until then a short page says what this is.
 * The ticket that brought somebody here is taken out of the address, so that it is neither bookmarked nor sent on.
 */
import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { VERSION } from '../../protocol/version.ts'

const SCRIPT =
  "const u=new URL(location.href);if(u.searchParams.has('token')){u.searchParams.delete('token');history.replaceState(null,'',u)}"
const STYLE =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem;color-scheme:light dark}code{font-size:.95em}'

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>roomd</title>
<style>${STYLE}</style>
<h1>roomd ${VERSION}</h1>
<p>This is a roomd daemon: it keeps live notebooks, their kernels and every output, for agents, editors and people at once.</p>
<p>Programs speak to it at <code>/v1/socket</code>, Yjs editors join a notebook at <code>/yjs/NOTEBOOK_ID</code>, outputs are at
<code>/blob/SHA256</code>, figures at <code>/metrics</code>. On the command line, <code>roomd ps</code> shows the notebooks.</p>
<script>${SCRIPT}</script>
</html>
`

const digest = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'Content-Security-Policy': `default-src 'none'; script-src ${digest(SCRIPT)}; style-src ${digest(STYLE)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'X-Frame-Options': 'DENY',
} as const

export function servePage(response: ServerResponse): void {
  response.writeHead(200, HEADERS).end(PAGE)
}
