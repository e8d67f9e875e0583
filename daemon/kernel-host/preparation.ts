/**
 * What is asked of a fresh kernel before anything else runs in it. Kernels publish with ZeroMQ's default mark of 1,000 messages: a
 * cell that publishes faster than the system lets us read loses output without a word, whatever our own mark is (measured:
 * 50,000 messages of a busy machine's Python kernel, 34,185 arrived). Where a kernel lets us take its mark away, we do.
 *
 * Sent as a silent execute on shell: it counts nothing, stores nothing, leaves no name, and everything sent later runs behind it.
 */

/** Code for the kernel that answered kernel_info like this, or null. */
export function preparation(info: Record<string, unknown>): string | null {
  return info.implementation === 'ipython' ? IPYTHON : null
}

// The socket belongs to ipykernel's iopub thread, so the change is made there. libzmq applies it to connections that exist.
const IPYTHON = `
try:
    (lambda thread: thread.schedule(lambda: setattr(thread.socket, "sndhwm", 0)))(get_ipython().kernel.iopub_thread)
except Exception:
    pass
`.trim()
