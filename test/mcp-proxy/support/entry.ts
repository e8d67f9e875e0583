/** A program like `roomd mcp` with the scripted child behind it: bundled to `roomd.js`, it is proxy and child both. */
import { pathToFileURL } from 'node:url'
import { runProxy } from '../../../client/mcp-proxy/run.ts'

if (process.argv.includes('--child')) {
  await import(pathToFileURL(process.env.SCRIPTED_CHILD ?? '').href)
} else {
  if (process.env.STRAY !== undefined) {
    setInterval(() => {
      console.log('a stray line')
      process.stdout.write('and another')
    }, 1)
  }
  process.exit(await runProxy({ childArguments: ['mcp', '--child'], env: process.env, cwd: process.cwd() }))
}
