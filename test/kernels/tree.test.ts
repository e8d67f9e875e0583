/** What a cell starts ends with its kernel, however it hides and however the kernel ends. */
import { expect, test } from 'vitest'
import { needs } from '../support/machine.ts'
import { alive, gone, signal } from '../support/processes.ts'
import { Listener, withKernels } from './harness.ts'

/**
 * Prints pids: of a service that is to stay, of a child, of a grandchild whose parent is gone, of a child in a session of its own,
 * and of one that left session and parents both.
 */
const STARTS = `
import os, subprocess, sys
def last(program, *arguments):
    return int(subprocess.run([program, *arguments], capture_output=True, text=True).stdout)
quiet = "subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True).pid"
daemon = "import os, subprocess\\nif os.fork(): os._exit(0)\\nos.setsid()\\nprint(" + quiet + ", flush=True)"
service = last("env", "-u", "ROOMD_KERNEL_ID", sys.executable, "-c", daemon)
child = subprocess.Popen(["sleep", "600"]).pid
grandchild = last("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
session = subprocess.Popen(["sleep", "600"], start_new_session=True).pid
print(service, child, grandchild, session, last(sys.executable, "-c", daemon), flush=True)
`

const ends = async (how: 'shutdown' | 'SIGKILL') =>
  withKernels(async ({ start }) => {
    const kernel = await start('python3')
    const listener = new Listener(kernel)
    const [service = 0, ...children] = listener
      .text(await listener.run(STARTS))
      .trim()
      .split(' ')
      .map(Number)
    try {
      expect(children.length).toBe(4)
      expect([service, ...children].every(alive)).toBe(true)
      if (how === 'shutdown') await kernel.shutdown()
      else {
        signal(kernel.summary().pid ?? 0, how)
        await listener.event('died')
      }
      for (const pid of children) await gone(pid)
      // Who was told to stay stays.
      expect(alive(service)).toBe(true)
    } finally {
      signal(service, 'SIGKILL')
    }
  })

test('a kernel that is shut down takes everything along that its cells started', (context) => {
  needs(context, 'Python kernel')
  return ends('shutdown')
})

test('a kernel that is killed takes everything along too', (context) => {
  needs(context, 'Python kernel')
  return ends('SIGKILL')
})
