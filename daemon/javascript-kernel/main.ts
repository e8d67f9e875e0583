/**
 * Entry of the embedded kernel: `node javascript-kernel.js CONNECTION_FILE`. One bundle, three threads: user code on the main
 * thread, the channels and the sentinel on workers, which are started from the same file. The channels load ZeroMQ while the main
 * thread loads the parser.
 */
import { writeSync } from 'node:fs'
import { isMainThread, MessageChannel, Worker, workerData } from 'node:worker_threads'
import { type ConnectionInfo, readConnectionFile } from './connection-file.ts'
import { createSharedMemory } from './ring.ts'
import { takeInterruptSignal } from './signals.ts'
import type { ChannelsStart, SentinelStart } from './threads.ts'

if (isMainThread) await startMain()
else await startWorker(workerData as ChannelsStart | SentinelStart)

async function startMain(): Promise<void> {
  takeInterruptSignal()
  const connection = connectionOrExit(process.argv[2])
  const memory = createSharedMemory()
  const requests = new MessageChannel()
  const stdin = new MessageChannel()
  const sentinel = new MessageChannel()
  startThread({
    thread: 'channels',
    connection,
    memory: memory.buffer,
    requests: requests.port2,
    stdin: stdin.port2,
  })
  startThread({ thread: 'sentinel', memory: memory.buffer, requests: sentinel.port2 })
  const { Kernel } = await import('./kernel.ts')
  const ports = { requests: requests.port1, stdin: stdin.port1, sentinel: sentinel.port1 }
  new Kernel(memory, ports).open()
}

function startThread(start: ChannelsStart | SentinelStart): void {
  const transferList = start.thread === 'channels' ? [start.requests, start.stdin] : [start.requests]
  const worker = new Worker(new URL(import.meta.url), { workerData: start, transferList })
  worker.on('error', (error) => {
    const detail = error instanceof Error ? error.stack : String(error)
    writeSync(2, `javascript kernel: the ${start.thread} thread failed: ${detail}\n`)
    process.exit(1)
  })
}

async function startWorker(start: ChannelsStart | SentinelStart): Promise<void> {
  if (start.thread === 'sentinel') {
    const { keepSentinel } = await import('./sentinel.ts')
    keepSentinel(start)
    return
  }
  const { Channels } = await import('./channels.ts')
  const { watchParent } = await import('./parent-watch.ts')
  watchParent()
  await new Channels(start).open()
}

function connectionOrExit(path: string | undefined): ConnectionInfo {
  try {
    if (path === undefined) throw new Error('usage: javascript-kernel CONNECTION_FILE')
    return readConnectionFile(path)
  } catch (error) {
    writeSync(2, `${(error as Error).message}\n`)
    process.exit(2)
  }
}
