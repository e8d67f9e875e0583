/**
 * The thread that owns the store's write connection; nothing else writes while the store is open. It sleeps on the bell, takes
 * all that was handed over meanwhile, makes one transaction of it, and tells how each unit went. It never stops at an error:
 * the next hand-over is tried afresh, so that writing works again as soon as the disk does.
 */
import { isMainThread, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { deepCheck } from './inspect.ts'
import { WriteConnection } from './write-connection.ts'
import type { FromWriter, ToWriter, Work, WorkerData } from './writer-messages.ts'

/** One transaction takes no more than about this much, so that the first caller in line is not kept waiting. */
const MOST_UNITS = 4096
const MOST_BYTES = 16 * 1024 * 1024
/** Quiet time after which the log is moved into the database. */
const IDLE_MS = 500

function serve(data: WorkerData & { role: 'writer' }): void {
  const { port, bell } = data
  const connection = new WriteConnection(data.file)
  const tell = (message: FromWriter): void => port.postMessage(message)
  let closing = false

  function take(): Work[] {
    const taken: Work[] = []
    let units = 0
    let bytes = 0
    while (!closing && units < MOST_UNITS && bytes < MOST_BYTES) {
      const received: { message: ToWriter } | undefined = receiveMessageOnPort(port)
      if (received === undefined) break
      const message = received.message
      if (message.kind === 'close') closing = true
      else {
        taken.push(message)
        units += message.count
        bytes += message.kind === 'units' ? message.blobs.length : 0
      }
    }
    return taken
  }

  let unchecked = false
  for (;;) {
    const rung = Atomics.load(bell, 0)
    const taken = take()
    if (taken.length > 0) {
      const { failures, results } = connection.commit(taken)
      unchecked = true
      const first = taken[0]?.first ?? 0
      const count = taken.reduce((sum, t) => sum + t.count, 0)
      tell({ kind: 'settled', first, count, failures, results })
    } else if (closing) {
      break
    } else if (Atomics.wait(bell, 0, rung, unchecked ? IDLE_MS : undefined) === 'timed-out') {
      connection.checkpoint()
      unchecked = false
    }
  }
  const error = connection.close()
  tell({ kind: 'closed', ...(error === null ? {} : { error }) })
  port.close()
}

if (!isMainThread) {
  const data = workerData as WorkerData
  switch (data.role) {
    case 'writer':
      serve(data)
      break
    case 'check':
      parentPort?.postMessage(deepCheck(data.file))
      break
  }
}
