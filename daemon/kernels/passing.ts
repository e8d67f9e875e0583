/**
 * Which failures to start a host pass by themselves. The disk is full, descriptors or processes are used up: the kernel that
 * waits for a host is not to blame and keeps its variables.
 */
import { RoomdError } from '../../protocol/errors.ts'

const SYSTEM = new Set(['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'])

export function isPassing(error: unknown): boolean {
  if (error instanceof RoomdError) return error.code === 'storage_full' || error.code === 'storage_failed'
  return error instanceof Error && 'code' in error && SYSTEM.has(String(error.code))
}
