#!/usr/bin/env node
/**
 * Entry of the `roomd` command. Owns the process's end: the exit code is set after everything written has left, and a reader
 * that went away (`roomd ps | head`) is no failure.
 */
import { plainMcp, runPlainMcp } from './plain-mcp.ts'

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

const argv = process.argv.slice(2)
const mcp = plainMcp(argv)
const code = mcp === null ? await (await import('./program.ts')).runCommandLine(argv) : await runPlainMcp(mcp)
await new Promise((resolve) => process.stdout.write('', resolve))
process.exit(code)
