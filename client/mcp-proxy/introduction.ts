/**
 * What client and child have told each other about themselves, kept so that every new child and every question of the client finds
 * it: the client's `initialize` parameters, the tool list, the log level and resource subscriptions the client set.
 */
import type { Child } from './child.ts'
import { type JsonObject, type Outcome, RpcCode } from './jsonrpc.ts'
import { type Advertised, compareNames, differs, type Tool, toolsOf } from './tool-list.ts'

export interface IntroductionOptions {
  readonly advertised: Advertised | null
  readonly version: string
  /** Answered by the proxy; they stand in every list, and a child's of the same name do not. */
  readonly local: readonly Tool[]
  /** The list is not what the client was told. */
  readonly changed: () => void
  readonly log: (text: string) => void
}

/** Newest first. A test compares them with the MCP SDK's. */
export const PROTOCOL_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07']
const LIST_PAGES_MAX = 50

export class Introduction {
  readonly #options: IntroductionOptions
  readonly #localNames: ReadonlySet<string>
  #clientParams: JsonObject | null = null
  /** The child's tools, without names of local ones; null: not known yet. */
  #tools: readonly Tool[] | null
  #byName = new Map<string, Tool>()
  #logLevel: JsonObject | null = null
  readonly #subscriptions = new Map<unknown, JsonObject>()
  #waiting: Array<() => void> = []

  constructor(options: IntroductionOptions) {
    this.#options = options
    this.#localNames = new Set(options.local.map((tool) => tool.name))
    this.#tools = null
    if (options.advertised !== null) this.#adopt(options.advertised.tools)
  }

  /** What every child gets as `initialize` parameters. A client that never sent any is a plain one. */
  get clientParams(): JsonObject {
    return (
      this.#clientParams ?? {
        protocolVersion: PROTOCOL_VERSIONS[0],
        capabilities: {},
        clientInfo: { name: 'unknown', version: '0' },
      }
    )
  }

  /** The answer to the client's `initialize`. */
  greet(params: JsonObject): JsonObject {
    this.#clientParams = params
    const { advertised, version } = this.#options
    const asked = params.protocolVersion
    const capabilities = advertised?.capabilities ?? {
      logging: {},
      resources: { subscribe: true, listChanged: true },
    }
    return {
      protocolVersion: PROTOCOL_VERSIONS.find((known) => known === asked) ?? PROTOCOL_VERSIONS[0],
      capabilities: { ...capabilities, tools: { listChanged: true } },
      serverInfo: advertised?.serverInfo ?? { name: 'roomd', title: `roomd ${version}`, version },
      ...(advertised?.instructions === undefined ? {} : { instructions: advertised.instructions }),
    }
  }

  /** The answer to the client's `tools/list`; null: no list is known yet. */
  list(params: JsonObject | undefined): Outcome | null {
    if (params?.cursor !== undefined) {
      return { error: { code: RpcCode.invalidParams, message: 'the list has one page; there is no cursor' } }
    }
    return this.#tools === null ? null : { result: { tools: [...this.#tools, ...this.#options.local] } }
  }

  /** Resolves when a list is known, or when none is to be had for now. */
  known(): Promise<void> {
    return this.#tools !== null ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** No child can be started: who waits for its list gets the local tools; the rest is announced when it is known. */
  giveUp(): void {
    if (this.#tools === null) this.#adopt([])
  }

  tool(name: string): Tool | undefined {
    return this.#byName.get(name)
  }

  /** A request of the client succeeded; some set what a new child must be told again. */
  remember(method: string, params: JsonObject): void {
    if (method === 'logging/setLevel') this.#logLevel = params
    else if (method === 'resources/subscribe') this.#subscriptions.set(params.uri, params)
    else if (method === 'resources/unsubscribe') this.#subscriptions.delete(params.uri)
  }

  /** Requests that bring a new child to where the last one was. */
  recalled(): Array<{ method: string; params: JsonObject }> {
    return [
      ...(this.#logLevel === null ? [] : [{ method: 'logging/setLevel', params: this.#logLevel }]),
      ...[...this.#subscriptions.values()].map((params) => ({ method: 'resources/subscribe', params })),
    ]
  }

  /**
   * Asks the child for its list and takes it over when it differs. An empty list is never taken over: it says that something is
   * wrong with the child. Resolves with the names that are gone.
   */
  async learn(child: Child): Promise<readonly string[]> {
    let offered: Tool[]
    try {
      offered = await allTools(child)
    } catch (error) {
      // A child that ended is followed by another, which is asked.
      if (!child.ending)
        this.#options.log(`the child's tool list could not be read: ${(error as Error).message}`)
      return []
    }
    const tools = offered.filter((tool) => !this.#localNames.has(tool.name))
    if (tools.length === 0) {
      this.#options.log('the child offers no tools; the list stays as it was')
      return []
    }
    const before = this.#tools ?? []
    if (this.#tools !== null && !differs(before, tools)) return []
    const change = compareNames(before, tools)
    const announce = this.#tools !== null
    this.#adopt(tools)
    if (announce) this.#options.changed()
    if (change !== 'incompatible') return []
    return before.map((tool) => tool.name).filter((name) => !this.#byName.has(name))
  }

  #adopt(tools: readonly Tool[]): void {
    this.#tools = tools.filter((tool) => !this.#localNames.has(tool.name))
    this.#byName = new Map(this.#tools.map((tool) => [tool.name, tool]))
    const waiting = this.#waiting
    this.#waiting = []
    for (const resume of waiting) resume()
  }
}

async function allTools(child: Child): Promise<Tool[]> {
  const tools: Tool[] = []
  let cursor: unknown
  for (let page = 0; page < LIST_PAGES_MAX; page++) {
    const result = await child.request('tools/list', cursor === undefined ? {} : { cursor })
    const found = toolsOf(result)
    if (found === null) throw new Error('its tools/list has no tools')
    tools.push(...found)
    cursor = result.nextCursor
    if (cursor === undefined) return tools
  }
  throw new Error(`its tools/list has more than ${LIST_PAGES_MAX} pages`)
}
