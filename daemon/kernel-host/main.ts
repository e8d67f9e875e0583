/**
 * The kernel host's program: `kernel-host.js <folder of the kernel>`. Starts the kernel before it loads ZeroMQ and the rest, so
 * that both start side by side. stderr is the host's log.
 */
import { readFileSync, writeSync } from 'node:fs'
import type { HostLaunch } from '../../protocol/kernel-host.ts'
import { type KernelFolder, kernelFolder } from './folder.ts'
import { type Launched, launchOnIpc } from './launch.ts'

/** A log that cannot be written (full disk) loses lines; it must not end the host. `process.stderr` would throw. */
function log(message: string): void {
  const line = `${JSON.stringify({ at: new Date().toISOString(), pid: process.pid, message })}\n`
  try {
    writeSync(2, line)
  } catch {
    // Nowhere to tell it.
  }
}

process.on('uncaughtException', (error) => {
  log(`unexpected failure, ending: ${error.stack ?? error.message}`)
  // The kernel goes on; a daemon that notices starts a host that adopts it.
  process.exit(1)
})
// Ctrl-C and a closed terminal are for whoever has the terminal.
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})

const path = process.argv[2]
if (path === undefined) {
  process.stderr.write('usage: kernel-host.js FOLDER (holding launch.json)\n')
  process.exit(2)
}
const folder = kernelFolder(path)
const text = readFileSync(folder.launch, 'utf8')
const early = startEarly(folder, JSON.parse(text) as HostLaunch)
const { runHost } = await import('./run.ts')
await runHost(folder, text, early, log)

/**
 * The file is our daemon's own and 0600, and what is used here is checked by its use; `runHost` then parses all of it. Only a
 * fresh start on ipc is early: TCP ports and adoption need more.
 */
function startEarly(where: KernelFolder, launch: HostLaunch): Launched | null {
  return launch.adopt === undefined &&
    launch.remote === undefined &&
    launch.transport === 'ipc' &&
    launch.ipc_dir !== ''
    ? launchOnIpc(where, launch)
    : null
}
