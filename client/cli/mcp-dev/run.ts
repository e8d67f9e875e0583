/**
 * `roomd mcp --dev`: the same proxy, working on a source checkout, with tools to rebuild and restart. `owner` may start and stop the
 * daemon, `attach` uses the one that runs, `isolated` has a daemon and home of its own that end with it.
 */
import { runProxy } from '../../mcp-proxy/run.ts'
import type { CommandContext } from '../command.ts'
import { childArguments } from '../plain-mcp.ts'
import { findCheckout } from './checkout.ts'
import { isolatedVariables, makeIsolatedHome } from './isolated-home.ts'
import { type DevMode, devTools } from './tools.ts'

export async function runDevProxy(context: CommandContext, mode: DevMode, start: boolean): Promise<void> {
  const checkout = findCheckout()
  const mayStart = start && mode !== 'attach'
  const home = mode === 'isolated' ? makeIsolatedHome(checkout, context.env) : context.places.home
  const variables = mode === 'isolated' ? isolatedVariables(home) : {}
  process.stderr.write(
    `roomd mcp: development proxy, mode ${mode}, checkout ${checkout.root}, home ${home}\n`,
  )
  await runProxy({
    childArguments: childArguments(mayStart),
    childVariables: variables,
    env: context.env,
    cwd: context.cwd,
    localTools: (supervisor) =>
      devTools({ mode, checkout, env: { ...context.env, ...variables }, home, supervisor }),
  })
}
