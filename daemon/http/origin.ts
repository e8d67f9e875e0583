/**
 * Whether a request was meant for us and comes from a page of ours. A foreign Host is a name that somebody made point to
 * 127.0.0.1 (DNS rebinding); a foreign Origin is another page speaking in the name of the user's browser. Requests that carry
 * no Origin (programs, `<img>` of other pages) are judged by `Sec-Fetch-Site` where there is one: SameSite cookies do not help
 * there, since all ports of a host are one site.
 */
import type { IncomingHttpHeaders } from 'node:http'

export class Origins {
  readonly #hosts: ReadonlySet<string>
  readonly #origins: ReadonlySet<string>

  /** `extra`: names of the settings, under which a proxy passes requests on; any scheme. */
  constructor(port: number, extra: readonly string[]) {
    const own = ['127.0.0.1', 'localhost', '[::1]']
    // Clients leave the port of the scheme out.
    const hosts = own.flatMap((name) => (port === 80 ? [name, `${name}:80`] : [`${name}:${port}`]))
    const further = extra.map((name) => name.toLowerCase())
    this.#hosts = new Set([...hosts, ...further])
    this.#origins = new Set([
      ...hosts.map((host) => `http://${host}`),
      ...further.flatMap((host) => [`http://${host}`, `https://${host}`]),
    ])
  }

  /** Why the request is refused, null when it may pass. `page`: it asks for a page that people open by links. */
  fault(headers: IncomingHttpHeaders, page: boolean): string | null {
    const host = headers.host?.toLowerCase()
    if (host === undefined || !this.#hosts.has(host)) {
      return 'the Host header names no address of this daemon; use 127.0.0.1, localhost or [::1] with its port, or add the name to http.hosts'
    }
    const { origin } = headers
    if (origin !== undefined) {
      return this.#origins.has(origin.toLowerCase()) ? null : 'the Origin is not this daemon’s own'
    }
    const site = headers['sec-fetch-site']
    if (site === undefined || site === 'same-origin' || site === 'none') return null
    const navigates = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
    return page && navigates ? null : 'the request was made by a page of another origin'
  }
}
