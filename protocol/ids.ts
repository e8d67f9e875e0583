/**
 * Branded identifiers. Every id that crosses the socket is parsed here once; inside the program the brand
 * says that this has happened. Ids are keys, never path components, unless their grammar below forbids `/` and `.`.
 */
import { z } from 'zod'

const uuid = z.uuid().transform((text) => text.toLowerCase())

/** Identifies a room for ever; opaque. */
export const NotebookId = uuid.brand<'NotebookId'>()
export type NotebookId = z.output<typeof NotebookId>

/** Identifies one run of one cell; also the `msg_id` of its `execute_request`. */
export const ExecutionId = uuid.brand<'ExecutionId'>()
export type ExecutionId = z.output<typeof ExecutionId>

/** Identifies one kernel process (and its host) for its whole life. */
export const KernelId = uuid.brand<'KernelId'>()
export type KernelId = z.output<typeof KernelId>

/** Identifies a project. */
export const ProjectId = uuid.brand<'ProjectId'>()
export type ProjectId = z.output<typeof ProjectId>

/** Identifies one daemon process's lifetime. */
export const BootId = uuid.brand<'BootId'>()
export type BootId = z.output<typeof BootId>

/** One client's lifetime as its user sees it; survives reconnects. Chosen by the client. */
export const ClientInstance = z
  .string()
  .regex(/^[A-Za-z0-9_-]{8,64}$/, 'expected 8 to 64 letters, digits, "_" or "-"')
  .brand<'ClientInstance'>()
export type ClientInstance = z.output<typeof ClientInstance>

/**
 * Names one mutation of one client instance: a positive integer that grows, so that a watermark can settle all below.
 * Unique within the client instance.
 */
export const MutationId = z.number().int().positive().max(Number.MAX_SAFE_INTEGER).brand<'MutationId'>()
export type MutationId = z.output<typeof MutationId>

const MAX_CELL_ID = 128
/** nbformat's grammar for cell ids (JEP 62), widened to 128 characters for files that break it. */
export const CellId = z.string().min(1).max(MAX_CELL_ID).brand<'CellId'>()
export type CellId = z.output<typeof CellId>

/** What the schema asks for, without the schema: thousands are asked at once. */
export function isCellId(value: unknown): value is CellId {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_CELL_ID
}

/** SHA-256 of a blob's bytes, lower-case hex. */
export const BlobHash = z
  .string()
  .regex(/^[0-9a-f]{64}$/, 'expected 64 lower-case hex digits')
  .brand<'BlobHash'>()
export type BlobHash = z.output<typeof BlobHash>
