#!/usr/bin/env node
/**
 * Entry of the `roomd` command. Owns the process's end: the exit code is set after everything written has left, and a reader
 * that went away (`roomd ps | head`) is no failure.
 */
import { plainHook } from './hook/plain-hook.ts'
import { plainMcp, runPlainMcp } from './plain-mcp.ts'

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

const argv = process.argv.slice(2)
const code = await run()
await new Promise((resolve) => process.stdout.write('', resolve))
process.exit(code)

/** What hosts wait for takes a short way, past the table of commands. */
async function run(): Promise<number> {
  const mcp = plainMcp(argv)
  if (mcp !== null) return runPlainMcp(mcp)
  const hook = plainHook(argv)
  if (hook !== null) return (await import('./hook/hook-command.ts')).runHook(hook)
  return (await import('./program.ts')).runCommandLine(argv)
}
