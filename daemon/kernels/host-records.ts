/**
 * Reads what a kernel's folder says of its host. Information only: believed as far as pids with their start times, and the nonce
 * that the host answers with, agree.
 */
import { z } from 'zod'
import { HostLaunch } from '../../protocol/kernel-host.ts'
import { lazily } from '../../protocol/lazily.ts'
import { readIfThere } from '../../protocol/small-files.ts'
import type { KernelFolder } from '../kernel-host/folder.ts'

const Identity = lazily(() => z.object({ pid: z.number().int(), started: z.number().nullable() }))

const HostRecord = lazily(() =>
  z.looseObject({
    nonce: z.string(),
    host: Identity,
    kernel: Identity.nullable(),
    socket: z.string(),
    version: z.string(),
    remote: z.looseObject({ kernel_id: z.string().nullable(), session: z.string().nullable() }).optional(),
  }),
)
export type HostRecord = z.output<typeof HostRecord>

/** null when there is none, or what is there is no record (a disk that was full). */
export function readHostRecord(folder: KernelFolder): HostRecord | null {
  return readAs(HostRecord, folder.host)
}

export function readLaunch(folder: KernelFolder): HostLaunch | null {
  return readAs(HostLaunch, folder.launch)
}

function readAs<S extends z.ZodType>(schema: S, path: string): z.output<S> | null {
  const text = readIfThere(path)
  if (text === null) return null
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Half a file is as good as none.
    return null
  }
  const parsed = schema.safeParse(value)
  return parsed.success ? parsed.data : null
}
