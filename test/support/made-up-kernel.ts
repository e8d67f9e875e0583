/** A kernel that nothing stands behind: for tests of who starts, holds and ends kernels. */
import type { Kernel } from '../../daemon/kernels/kernel.ts'
import type { KernelId } from '../../protocol/ids.ts'

/** Idle for ever; what becomes of it is told to `shutdown` and `release`. */
export function madeUpKernel(id: KernelId, fate: Pick<Kernel, 'shutdown' | 'release'>): Kernel {
  return {
    id,
    name: 'javascript',
    language: 'javascript',
    seq: 0,
    summary: () => ({
      kernel_id: id,
      name: 'javascript',
      language: 'javascript',
      state: 'idle',
      pid: null,
      host_pid: null,
      started_at: 0,
    }),
    listen: () => {},
    acknowledge: () => {},
    send: async () => ({ alreadySent: false }),
    ask: async () => ({ status: 'ok' }),
    interrupt: async () => {},
    keepFor: () => {},
    ...fate,
  }
}
