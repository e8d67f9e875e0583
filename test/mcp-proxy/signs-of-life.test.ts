/** Whether a process is at work: real processes. */
import { spawn } from 'node:child_process'
import { test } from 'vitest'
import { signOfLife } from '../../client/mcp-proxy/signs-of-life.ts'
import { gone } from '../support/processes.ts'
import { until } from '../support/until.ts'

test('a process that computes is told from one that waits, and from one that is gone', async () => {
  // It computes when it is told to, until it is told again.
  const program = `
    let work = false
    process.stdin.on('data', (data) => { work = String(data).includes('go'); if (work) step() })
    function step() { const end = Date.now() + 50; while (Date.now() < end); if (work) setImmediate(step) }
    process.stdout.write('ready')`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const pid = child.pid ?? 0
  try {
    await new Promise((resolve) => child.stdout.once('data', resolve))
    const before = signOfLife(pid)?.cpu ?? 0
    child.stdin.write('go\n')
    await until('it to use time', () => (signOfLife(pid)?.cpu ?? 0) > before + 2)
    child.stdin.write('stop\n')
    await until('it to wait', () => signOfLife(pid)?.busy === false)
  } finally {
    child.kill('SIGKILL')
  }
  await gone(pid)
  await until('its entry to be gone', () => signOfLife(pid) === null)
})
