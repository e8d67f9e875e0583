/**
 * The MCP server: requests of the client to sessions, tools and resources. Owns all of them; `close` ends them with their peers.
 * Transport and process are main's business.
 */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  CallToolRequestSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { Clock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { Activities } from './activities.ts'
import type { DaemonLink } from './daemon-link.ts'
import { Recorder } from './ledger/recorder.ts'
import { capabilities, instructions, listing, serverInfo } from './listing.ts'
import { MutationBlock } from './mutation-block.ts'
import { ProgressTeller } from './progress.ts'
import { getPrompt, prompts } from './prompts/prompts.ts'
import type { ProxyTalk } from './proxy-talk.ts'
import { readResource } from './resources/reading.ts'
import { Subscriptions } from './resources/subscriptions.ts'
import { cellsUri, NOTEBOOKS, templates } from './resources/uri.ts'
import { errorResult } from './results/errors.ts'
import type { Sessions } from './sessions/sessions.ts'
import { type CallResult, callTool } from './tools/dispatch.ts'
import type { AskUser, ShowAddress } from './tools/tool.ts'

export interface McpServerOptions {
  readonly daemon: DaemonLink
  readonly sessions: Sessions
  readonly clock: Clock
  readonly cwd: string
  readonly proxy: ProxyTalk
  readonly show: ShowAddress | null
}

/** Characters of a label; the daemon shows fewer. */
const LABEL_MAX = 200
/** MCP's code for a resource that is not there. */
const RESOURCE_NOT_FOUND = -32002

export class McpServer {
  readonly server: Server
  readonly #options: McpServerOptions
  readonly #subscriptions: Subscriptions
  readonly #activities = new Activities()
  readonly #recorder: Recorder
  readonly #calls = new Set<Promise<unknown>>()
  #ending = false
  #settle: (result: CallResult) => void = () => {}
  /** What calls under way are answered with when they cannot be carried to their end. */
  readonly #settled = new Promise<CallResult>((resolve) => {
    this.#settle = resolve
  })

  constructor(options: McpServerOptions) {
    this.#options = options
    const { sessions, daemon, clock } = options
    this.#recorder = new Recorder({ daemon, cwd: options.cwd, active: () => sessions.active })
    this.server = new Server(serverInfo, { capabilities, instructions })
    this.#subscriptions = new Subscriptions({
      sessions,
      daemon,
      clock,
      updated: (uri) => this.#notify('notifications/resources/updated', { uri }),
    })
    sessions.on('changed', () => this.#notify('notifications/resources/list_changed', {}))
    this.#handle()
  }

  /** Resolves when no tool call is under way. */
  async idle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.allSettled(this.#calls)
  }

  /** How this client's peers are called. */
  get label(): string {
    const client = this.server.getClientVersion() as { name: string; title?: string } | undefined
    return (client?.title || client?.name || 'MCP client').slice(0, LABEL_MAX)
  }

  /** Answers the calls under way, and all that follow, with this error. What they began goes on. */
  settle(error: RoomdError): void {
    this.#settle(errorResult(error))
  }

  /** Ends subscriptions; calls under way are left alone, and what they started goes on. */
  dispose(): void {
    this.#ending = true
    this.#subscriptions.dispose()
  }

  #handle(): void {
    const { server } = this
    const { sessions, daemon } = this.#options
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [...listing().tools] }))
    server.setRequestHandler(CallToolRequestSchema, (request, extra) => {
      const call = this.#call(request.params, extra)
      this.#calls.add(call)
      return call.finally(() => this.#calls.delete(call))
    })
    server.setRequestHandler(ListPromptsRequestSchema, () => ({
      prompts: prompts.map((prompt) => ({ ...prompt, arguments: [...prompt.arguments] })),
    }))
    server.setRequestHandler(GetPromptRequestSchema, async ({ params }) => ({
      ...(await asProtocolError(getPrompt(daemon, params.name, params.arguments ?? {}))),
    }))
    server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
      resourceTemplates: [...templates],
    }))
    server.setRequestHandler(ListResourcesRequestSchema, () => ({
      resources: [
        {
          uri: NOTEBOOKS,
          name: 'notebooks',
          title: 'Notebooks',
          description: 'Notebooks that are open, the active one and the parked ones.',
          mimeType: 'application/json',
        },
        ...[...(sessions.active ? [namesOf(sessions.active)] : []), ...sessions.parked].map(
          ({ notebook_id, path }) => ({
            uri: cellsUri(notebook_id),
            name: `cells of ${path ?? notebook_id}`,
            mimeType: 'application/json',
          }),
        ),
      ],
    }))
    server.setRequestHandler(ReadResourceRequestSchema, async ({ params }, { signal }) => ({
      contents: [await asProtocolError(readResource(params.uri, { sessions, daemon, signal }))],
    }))
    server.setRequestHandler(SubscribeRequestSchema, async ({ params }) => {
      await asProtocolError(this.#subscriptions.subscribe(params.uri))
      return {}
    })
    server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
      this.#subscriptions.unsubscribe(params.uri)
      return {}
    })
  }

  async #call(
    params: { name: string; arguments?: unknown; _meta?: Record<string, unknown> | undefined },
    extra: { signal: AbortSignal },
  ) {
    const { daemon, sessions, clock, cwd, proxy } = this.#options
    const meta = params._meta ?? {}
    const teller = this.#teller(meta.progressToken)
    // The end of the connection cancels nothing: only the client's word does.
    const cancelled = new AbortController()
    const cancel = (): void => {
      if (!this.#ending) cancelled.abort()
    }
    extra.signal.addEventListener('abort', cancel, { once: true })
    const mutations = new MutationBlock(proxy.mutationBase(meta))
    const record = this.#recorder.begin(params.name, mutations)
    try {
      const call = callTool(params.name, params.arguments, {
        sessions,
        daemon,
        activities: this.#activities,
        clock,
        cwd,
        signal: cancelled.signal,
        mutations,
        progress: teller ? (text) => teller.add(text) : null,
        ask: this.#ask,
        show: this.#options.show,
        record,
      }).then(async (result) => {
        await record.ended(result)
        return result
      })
      return { ...(await Promise.race([call, this.#settled])) }
    } finally {
      extra.signal.removeEventListener('abort', cancel)
      teller?.dispose()
    }
  }

  #teller(token: unknown): ProgressTeller | null {
    if (typeof token !== 'string' && typeof token !== 'number') return null
    return new ProgressTeller(this.#options.clock, (progress, message) =>
      this.#notify('notifications/progress', { progressToken: token, progress, message }),
    )
  }

  /** Asks the user through the client; null where the client cannot. */
  get #ask(): AskUser | null {
    if (!this.server.getClientCapabilities()?.elicitation) return null
    return async (prompt, signal) => {
      try {
        const { action, content } = await this.server.elicitInput(
          {
            message: prompt === '' ? 'The code that runs asks for a line of input.' : prompt,
            requestedSchema: {
              type: 'object',
              properties: { value: { type: 'string', title: 'Input', description: prompt } },
              required: ['value'],
            },
          },
          { signal, timeout: 24 * 3_600_000 },
        )
        const value = content?.value
        return action === 'accept' && typeof value === 'string' ? value : null
      } catch {
        // Withdrawn, or refused by a client that said it could: the result of the call tells that input is wanted.
        return null
      }
    }
  }

  #notify(method: string, params: Record<string, unknown>): void {
    if (this.#ending) return
    // Nobody there any more: the end of the transport is told elsewhere.
    this.server.transport?.send({ jsonrpc: '2.0', method, params }).catch(() => {})
  }
}

function namesOf(session: { notebookId: string; path: string | null }) {
  return { notebook_id: session.notebookId, path: session.path }
}

/** Requests that are no tool calls fail as JSON-RPC says. */
async function asProtocolError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof RoomdError)) throw error
    const missing = error.code === 'not_found' || error.code === 'notebook_unavailable'
    throw new McpError(missing ? RESOURCE_NOT_FOUND : -32603, error.message, {
      code: error.code,
      retryable: error.retryable,
    })
  }
}
