/** One MCP connection from its first to its last byte: puts the parts together and takes them apart in the right order. */
import { randomUUID } from 'node:crypto'
import type { Writable } from 'node:stream'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { systemClock } from '../../protocol/clock.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { DaemonLink } from './daemon-link.ts'
import { watchVersion } from './handoff.ts'
import { lifetime } from './lifetime.ts'
import { HANDOFF, type McpOptions } from './main.ts'
import { CHILD_NEWS, type ChildNews, ProxyTalk } from './proxy-talk.ts'
import { McpServer } from './server.ts'
import { type RejoinOutcome, Sessions } from './sessions/sessions.ts'
import { parseTarget, textOf } from './sessions/target.ts'

/** Bytes of one line from the client: a cell's source may have 8 MiB, and more as JSON. */
const LINE_MAX = 64 * 1024 * 1024
/** Milliseconds that calls under way have to end before a handoff; the rest is settled by the proxy with the next child. */
const SETTLE = 1_000
/** Milliseconds after which the end no longer waits for connections to close. */
const CLOSE = 1_500

export async function serve(options: McpOptions & { stdout: Writable }): Promise<number> {
  const { stdin = process.stdin, stdout, env = process.env, cwd = process.cwd() } = options
  const clock = systemClock
  const proxied = env.ROOMD_CLIENT_INSTANCE !== undefined
  const proxy = new ProxyTalk()
  const daemon = new DaemonLink({
    env,
    clock,
    label: () => mcp.label,
    kind: 'mcp',
    clientInstance: env.ROOMD_CLIENT_INSTANCE ?? randomUUID(),
    autostart: options.noStart ? null : (options.autostart ?? null),
    ...(proxied ? { settledBelow: () => proxy.settledBelow() } : {}),
  })
  const sessions = new Sessions({ daemon, clock, cwd })
  const mcp = new McpServer({ daemon, sessions, clock, cwd, proxy, show: options.show ?? null })
  const transport = new StdioServerTransport(stdin, stdout, { maxBufferSize: LINE_MAX })
  const tell = (news: ChildNews): Promise<void> =>
    proxied ? transport.send({ jsonrpc: '2.0', method: CHILD_NEWS, params: { ...news } }) : Promise.resolve()

  const life = lifetime(stdin, stdout)
  let handOff: () => void = () => {}
  const handedOff = new Promise<'handoff'>((resolve) => {
    handOff = () => resolve('handoff')
  })
  const stopWatching = watchVersion(daemon, (from, to) => {
    if (!proxied) aloneAt(mcp, from, to)
    handOff()
  })

  mcp.server.oninitialized = () => {
    const rejoin = env.ROOMD_REJOIN
    if (rejoin === undefined || rejoin === '') {
      void tell({ kind: 'rejoin', outcome: 'none' })
      daemon.local().catch(() => {
        // The first call that needs the daemon tells why there is none.
      })
      return
    }
    sessions.rejoin(parseTarget(rejoin, cwd)).then(
      (outcome) => tell(rejoinNews(rejoin, outcome)),
      // Ending while it was under way.
      () => {},
    )
  }

  await mcp.server.connect(transport)
  const why = await Promise.race([life.ended, handedOff])
  if (why === 'handoff') {
    await within(SETTLE, mcp.idle())
    const target = sessions.handoffTarget
    await within(SETTLE, tell({ kind: 'handoff', target: target ? textOf(target) : null }))
  }
  stopWatching()
  life.dispose()
  mcp.dispose()
  sessions.dispose()
  await within(CLOSE, Promise.allSettled([daemon.close(), mcp.server.close()]))
  return why === 'handoff' ? HANDOFF : 0
}

/** Nobody is there to send open calls to the next server: they are answered here, and whoever started this one is told. */
function aloneAt(mcp: McpServer, from: string, to: string): void {
  const why = `the daemon was replaced: it is version ${to}, and this MCP server was made for ${from}`
  mcp.settle(
    new RoomdError(
      'daemon_replaced',
      `${why}. The server ends; start it again. What this call began goes on in the daemon`,
      { retryable: true, next: { tool: 'list_executions', arguments: {} } },
    ),
  )
  process.stderr.write(`roomd mcp: ${why}; it ends with ${HANDOFF}, to be started again\n`)
}

/** Waits for `work`, but not longer than `ms`. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}

function rejoinNews(target: string, result: RejoinOutcome): ChildNews {
  switch (result.outcome) {
    case 'succeeded':
      return {
        kind: 'rejoin',
        outcome: 'succeeded',
        target: textOf(result.session.target),
        readiness: result.session.room.state.readiness,
      }
    case 'failed':
      return { kind: 'rejoin', outcome: 'failed', target, reason: result.reason }
    case 'none':
      return { kind: 'rejoin', outcome: 'none', target }
  }
}
