/**
 * What an EVENT frame carries. Durable events have an `event_seq` (per room, rising by one, never reused); transient ones
 * have none and are not repeated by resume: what they tell is in OPENED and the projection. All arrive in one order on every
 * channel of a room.
 */
import { z } from 'zod'
import { CommContent, CommId, CommView } from './comms.ts'
import { CellId, ExecutionId } from './ids.ts'
import { lazily } from './lazily.ts'
import { ExecutionSummary, KernelSummary, Output, OutputGap, PeerSummary, SourceState } from './notebook.ts'

/** Yjs-style text delta over UTF-16 code units. */
export const TextDelta = lazily(() =>
  z.array(
    z.union([
      z.object({ retain: z.number().int().positive() }),
      z.object({ insert: z.string() }),
      z.object({ delete: z.number().int().positive() }),
    ]),
  ),
)
export type TextDelta = z.output<typeof TextDelta>

/** A cell as a document change carries it: without execution and outputs, which the mirror joins by `cell_id`. */
export const DocumentCell = lazily(() =>
  z.object({
    cell_id: CellId,
    cell_type: z.string(),
    source: z.string(),
    metadata: z.record(z.string(), z.unknown()),
    attachments: z.record(z.string(), z.unknown()).optional(),
  }),
)
export type DocumentCell = z.output<typeof DocumentCell>

export const CellsDelta = lazily(() =>
  z.array(
    z.union([
      z.object({ retain: z.number().int().positive() }),
      z.object({ insert: z.array(DocumentCell) }),
      z.object({ delete: z.number().int().positive() }),
    ]),
  ),
)
export type CellsDelta = z.output<typeof CellsDelta>

/** Change inside one cell; apply after the `delta` of the same event. */
export const CellChange = lazily(() =>
  z.object({
    cell_id: CellId,
    source: TextDelta.optional(),
    cell_type: z.string().optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    attachments: z.record(z.string(), z.unknown()).nullable().optional(),
  }),
)
export type CellChange = z.output<typeof CellChange>

/** Durable events: each is one row and one `event_seq`. */
export const DurableEvent = lazily(() =>
  z.discriminatedUnion('type', [
    z.object({ type: z.literal('execution_queued'), execution: ExecutionSummary }),
    z.object({ type: z.literal('execution_started'), execution: ExecutionSummary }),
    /** A new output, or the replacement of output `index` (display update). */
    z.object({
      type: z.literal('output'),
      execution_id: ExecutionId,
      index: z.number().int(),
      output: Output,
    }),
    /** Stream output `index`: cut its text to `from` UTF-16 units, append `text`. */
    z.object({
      type: z.literal('output_splice'),
      execution_id: ExecutionId,
      index: z.number().int(),
      from: z.number().int(),
      text: z.string(),
    }),
    /** `clear_output`: the execution has no outputs now. */
    z.object({ type: z.literal('outputs_cleared'), execution_id: ExecutionId }),
    z.object({
      type: z.literal('input_requested'),
      execution_id: ExecutionId,
      prompt: z.string(),
      password: z.boolean(),
    }),
    z.object({ type: z.literal('input_answered'), execution_id: ExecutionId, by: z.string() }),
    /** Always after the execution's last output. */
    z.object({ type: z.literal('execution_finished'), execution: ExecutionSummary }),
    /** `clear_outputs`: these cells no longer show an execution. */
    z.object({ type: z.literal('cells_cleared'), cell_ids: z.array(CellId) }),
    z.object({ type: z.literal('kernel'), kernel: KernelSummary.nullable() }),
    z.object({
      type: z.literal('source'),
      path: z.string().nullable(),
      state: SourceState,
      reason: z.string().optional(),
    }),
    z.object({
      type: z.literal('saved'),
      path: z.string(),
      doc_seq: z.number().int(),
      event_seq: z.number().int(),
    }),
    /** Something that everybody in the room should know: a kernel that was ended for its memory, with what is lost. */
    z.object({ type: z.literal('notice'), text: z.string() }),
    /** Kernel output that can no longer be had (its host died): said, never hidden. */
    z.object({
      type: z.literal('kernel_gap'),
      /** What ran; null: nothing did. */
      execution_id: ExecutionId.nullable(),
      reason: z.string(),
      /** Where in its outputs; absent when nothing ran. */
      gap: OutputGap.optional(),
    }),
    /** A comm is open; one of the same id is replaced. `by`: label of the peer who opened it; null: the kernel. */
    z.object({ type: z.literal('comm_opened'), comm: CommView, by: z.string().nullable() }),
    /** Values of its state that are new, whoever changed them; echoes and superseded values are not told. */
    z.object({
      type: z.literal('comm_updated'),
      comm_id: CommId,
      state: z.record(z.string(), z.unknown()),
      /** Names of values over COMM_INLINE: read them by `get_comm`. */
      omitted: z.array(z.string()),
      partial: z.boolean(),
      by: z.string().nullable(),
    }),
    /** Any other message of a comm. `content` is absent when it is over COMM_INLINE: `read_comm_message` has it for a while. */
    z.object({
      type: z.literal('comm_message'),
      comm_id: CommId,
      message_id: z.string(),
      by: z.string().nullable(),
      size: z.number().int(),
      content: CommContent.optional(),
    }),
    z.object({
      type: z.literal('comm_closed'),
      comm_id: CommId,
      data: z.record(z.string(), z.unknown()),
      by: z.string().nullable(),
    }),
    /** All comms are gone, with their kernel. */
    z.object({ type: z.literal('comms_gone'), reason: z.string() }),
  ]),
)
export type DurableEvent = z.output<typeof DurableEvent>

/** Transient events: no `event_seq`. */
export const TransientEvent = lazily(() =>
  z.discriminatedUnion('type', [
    /** The accepted document update number `doc_seq`, in the terms of the projection. */
    z.object({
      type: z.literal('cells'),
      doc_seq: z.number().int(),
      /**
       * Several updates that were accepted together, of which `doc_seq` is the last: how many of `changes` each of them made. Only for
       * connections that named the feature `EDITS_TOGETHER`; others are told each on its own.
       */
      parts: z.array(z.number().int().positive()).min(2).optional(),
      /** Label of who edited. */
      by: z.string(),
      delta: CellsDelta,
      changes: z.array(CellChange),
      /** Notebook-level metadata after the change, when it changed. */
      metadata: z.record(z.string(), z.unknown()).optional(),
    }),
    z.object({
      type: z.literal('peers'),
      joined: z.array(PeerSummary),
      left: z.array(z.string()),
      total: z.number().int(),
    }),
    /** Events `from`..`to` are not repeated; fresh projection pages follow. */
    z.object({ type: z.literal('gap'), from: z.number().int(), to: z.number().int(), reason: z.string() }),
  ]),
)
export type TransientEvent = z.output<typeof TransientEvent>
/** Feature of a connection whose client reads `parts`. */
export const EDITS_TOGETHER = 'edits_together'

export type RoomEvent = DurableEvent | TransientEvent

/** Payload of an EVENT frame. `at`: epoch ms. */
export const EventEnvelope = lazily(() =>
  z.object({
    event_seq: z.number().int().positive().optional(),
    at: z.number(),
    event: z.union([DurableEvent, TransientEvent]),
  }),
)
export type EventEnvelope = z.output<typeof EventEnvelope>
