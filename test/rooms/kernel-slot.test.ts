/** A room that is let go while its kernel starts: who wants the kernel gone is answered, and no kernel is left that nobody would end. */
import { expect, test } from 'vitest'
import type { Kernel, KernelProvider, StartRequest } from '../../daemon/kernels/kernel.ts'
import { KernelSlot, type KernelSlotPort } from '../../daemon/rooms/kernel-slot.ts'
import { RoomdError } from '../../protocol/errors.ts'
import { KernelId, NotebookId } from '../../protocol/ids.ts'
import { madeUpKernel } from '../support/made-up-kernel.ts'
import { ManualClock } from '../support/manual-clock.ts'
import { until, within } from '../support/until.ts'

const notebookId = NotebookId.parse('00000000-0000-4000-8000-000000000001')

/** A slot whose kernel starts when the test says so. */
function slotWithHeldStart() {
  const fates: string[] = []
  const starts: StartRequest[] = []
  let finish: (kernel: Kernel) => void = () => {}
  let fail: (error: Error) => void = () => {}
  const id = KernelId.parse('00000000-0000-4000-8000-000000000002')
  const kernel = madeUpKernel(id, {
    shutdown: async () => void fates.push('ended'),
    release: () => void fates.push('released'),
  })
  const kernels: KernelProvider = {
    specs: async () => [],
    environment: async () => ({}),
    program: async () => '',
    choose: () => Promise.reject(new Error('no kernelspec is chosen here')),
    adopt: async () => ({ kernels: [], gone: [] }),
    running: () => [],
    dispose: () => {},
    start: (request) => {
      starts.push(request)
      return new Promise((resolve, reject) => {
        finish = resolve
        fail = reject
      })
    },
  }
  const port: KernelSlotPort = {
    clock: new ManualClock(),
    kernels,
    startRequest: async () => ({ notebookId, name: 'javascript', cwd: '/', orphanGraceMs: null }),
    prepare: async () => {},
    changed: () => {},
    event: () => true,
    runningCell: () => undefined,
    ranOutOfMemory: () => '',
    started: () => {},
    settled: async () => {},
    ended: () => {},
    startFailed: () => {},
    idle: () => true,
    generation: () => 0,
    keepAliveMs: () => null,
  }
  return {
    slot: new KernelSlot(port),
    fates,
    starts,
    ready: () => finish(kernel),
    refuse: (error: Error) => fail(error),
  }
}

async function letGoWhileStarting() {
  const held = slotWithHeldStart()
  const wanted = held.slot.want().then(
    () => 'a kernel',
    (error: RoomdError) => error.code,
  )
  await until('the start', () => held.starts.length === 1)
  held.slot.dispose()
  return { ...held, wanted }
}

test('a start that fails after its room was let go does not hold up who ends it', async () => {
  const { slot, wanted, starts, refuse } = await letGoWhileStarting()
  const end = slot.end('shutdown', 'the test ends it')
  expect(starts[0]?.signal?.aborted).toBe(true)
  refuse(new RoomdError('kernel_start_failed', 'called off'))
  expect(await within('the end', end)).toBe(true)
  expect(await wanted).toBe('kernel_start_failed')
})

test('a kernel that comes up after its room was let go lives on for the next daemon; one that was ended meanwhile does not', async () => {
  const stopping = await letGoWhileStarting()
  stopping.ready()
  expect(await stopping.wanted).toBe('shutting_down')
  expect(stopping.fates).toEqual(['released'])

  const ending = await letGoWhileStarting()
  const end = ending.slot.end('shutdown', 'the test ends it')
  ending.ready()
  await within('the end', end)
  expect(ending.fates).toEqual(['ended'])
})

test('a room that was let go starts no other kernel', async () => {
  const { slot, starts, wanted, ready } = await letGoWhileStarting()
  ready()
  await wanted
  await expect(slot.want()).rejects.toMatchObject({ code: 'shutting_down' })
  expect(starts).toHaveLength(1)
})
