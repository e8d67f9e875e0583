/**
 * Tools of the development proxy: rebuild the checkout, restart the daemon with the new program, tell what runs. Builds and restarts
 * asked for at the same time are one.
 */
import { statSync } from 'node:fs'
import type { JsonObject } from '../../mcp-proxy/jsonrpc.ts'
import type { LocalTool } from '../../mcp-proxy/local-tools.ts'
import type { Supervisor } from '../../mcp-proxy/supervisor.ts'
import { type Checkout, type Finished, runNode } from './checkout.ts'

export type DevMode = 'owner' | 'attach' | 'isolated'

export interface DevSetting {
  readonly mode: DevMode
  readonly checkout: Checkout
  /** Of the programs that are run: home included. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly home: string
  readonly supervisor: () => Supervisor
}

const BUILD_BOUND = 120_000
const RESTART_BOUND = 60_000
const STATUS_BOUND = 15_000

export function devTools(setting: DevSetting): readonly LocalTool[] {
  const { mode, checkout, env, supervisor } = setting
  const rebuild = oneAtATime(async () => {
    const built = await runNode(checkout, ['scripts/build.mjs'], env, BUILD_BOUND)
    if (built.code !== 0) return failed('the build failed; the running child is the old one', built)
    await supervisor().restart('dev_rebuild')
    return done(`built in ${built.ms} ms; the child was restarted`, {
      built: true,
      ms: built.ms,
      output: built.output,
      child: child(supervisor()),
    })
  })
  const restartDaemon = oneAtATime(async () => {
    const restarted = await runNode(checkout, [checkout.program, 'restart', '--json'], env, RESTART_BOUND)
    if (restarted.code !== 0) return failed('the daemon was not restarted', restarted)
    return done('the daemon was restarted', { restarted: true, daemon: json(restarted.stdout) })
  })
  const status = async () => {
    const asked = await runNode(checkout, [checkout.program, 'status', '--json'], env, STATUS_BOUND)
    return done(`mode ${mode}, checkout ${checkout.root}, home ${setting.home}`, {
      mode,
      checkout: checkout.root,
      home: setting.home,
      built_at: statSync(checkout.program).mtime.toISOString(),
      proxy: { pid: process.pid },
      child: child(supervisor()),
      daemon: json(asked.stdout),
    })
  }
  return [
    tool(
      'dev_rebuild',
      'Rebuild',
      'Builds the source checkout and restarts the MCP child with it.',
      false,
      rebuild,
    ),
    // A daemon that is only attached to belongs to somebody else.
    ...(mode === 'attach'
      ? []
      : [
          tool(
            'dev_restart_daemon',
            'Restart daemon',
            'Stops the daemon and starts the one that was built last; kernels and running cells go on.',
            false,
            restartDaemon,
          ),
        ]),
    tool('dev_status', 'Development status', 'Mode, checkout, home, proxy, child and daemon.', true, status),
  ]
}

function tool(
  name: string,
  title: string,
  description: string,
  readOnlyHint: boolean,
  call: () => Promise<JsonObject>,
): LocalTool {
  return {
    definition: {
      name,
      title,
      description,
      inputSchema: { type: 'object', properties: {}, additionalProperties: false },
      annotations: {
        title,
        readOnlyHint,
        destructiveHint: false,
        idempotentHint: true,
        openWorldHint: false,
      },
    },
    call,
  }
}

/** Whoever asks while it runs gets the same result. */
function oneAtATime(act: () => Promise<JsonObject>): () => Promise<JsonObject> {
  let running: Promise<JsonObject> | null = null
  return () => {
    running ??= act().finally(() => {
      running = null
    })
    return running
  }
}

function child(supervisor: Supervisor): JsonObject {
  return { pid: supervisor.pid ?? null, generation: supervisor.generation }
}

function done(text: string, structuredContent: JsonObject): JsonObject {
  return {
    content: [{ type: 'text', text: `${text}\n${JSON.stringify(structuredContent, null, 2)}` }],
    structuredContent,
  }
}

function failed(what: string, { output, code }: Finished): JsonObject {
  const message = `${what} (exit ${code}):\n${output}`
  return {
    content: [{ type: 'text', text: message }],
    structuredContent: { error: { code: 'internal', message, retryable: true } },
    isError: true,
  }
}

/** The one JSON value a command printed; null when it printed none. */
function json(stdout: string): unknown {
  try {
    return JSON.parse(stdout)
  } catch {
    return null
  }
}
