/** Payloads of the frames that make and end connections and channels. */
import { z } from 'zod'
import { CommView } from './comms.ts'
import { WireCode, WireError } from './errors.ts'
import { DurableEvent } from './events.ts'
import { BootId, ClientInstance, ExecutionId, MutationId, NotebookId } from './ids.ts'
import { lazily } from './lazily.ts'
import { Cell, ExecutionSummary, KernelSummary, PeerKind, PeerSummary, Readiness } from './notebook.ts'
import { Scope } from './scopes.ts'

export const Hello = lazily(() =>
  z.object({
    client_instance: ClientInstance,
    client: z.object({
      name: z.string().max(200),
      version: z.string().max(100),
      pid: z.number().int().nonnegative(),
    }),
    /** Shown to others; cleaned by the daemon (length, control, zero-width and bidi characters). */
    label: z.string().max(1000),
    kind: PeerKind.default('editor'),
    features: z.array(z.string().max(100)).max(100).default([]),
    token: z.string().max(4096).optional(),
  }),
)
export type Hello = z.input<typeof Hello>

export const Welcome = lazily(() =>
  z.object({
    boot_id: BootId,
    pid: z.number().int(),
    /** Epoch ms. */
    started_at: z.number(),
    version: z.string(),
    api_version: z.number().int(),
    features: z.array(z.string()),
    limits: z.object({
      frame_payload: z.number().int(),
      credit: z.number().int(),
      request: z.number().int(),
    }),
    scope: Scope,
    /** Highest activation generation the daemon has seen from this client instance. */
    activation_generation: z.number().int().nonnegative(),
    /** Highest mutation id it has seen from this client instance; a new process counts on from there. */
    mutation_id: z.number().int().nonnegative(),
  }),
)
export type Welcome = z.output<typeof Welcome>

export const Target = lazily(() =>
  z.union([
    z.object({ notebook_id: NotebookId }).strict(),
    z
      .object({
        path: z.string().min(1).max(4096),
        /** Upgrade a file of format 3 or older in place to 4.5, before it is opened; owners only. */
        convert: z.boolean().optional(),
      })
      .strict(),
    z
      .object({
        create: z
          .object({
            path: z.string().min(1).max(4096).optional(),
            kernel: z.string().max(200).optional(),
            working_dir: z.string().max(4096).optional(),
            ephemeral: z.boolean().optional(),
            /** Begin with the cells and metadata of this room, without outputs. */
            clone_of: NotebookId.optional(),
            /** Makes a repeated create (after a lost answer) find the room it made. */
            mutation_id: MutationId.optional(),
          })
          .strict(),
      })
      .strict(),
  ]),
)
export type Target = z.output<typeof Target>

export const Open = lazily(() =>
  z.object({
    target: Target,
    /** `attach` never creates and is the only one for an id; `open` needs a file that exists; `create` makes a room. */
    mode: z.enum(['attach', 'open', 'create']),
    scope: Scope.optional(),
    activation_generation: z.number().int().nonnegative().optional(),
    /** Where this client left off; the daemon sends what was missed, or a fresh projection and one `gap`. */
    resume: z
      .object({ event_seq: z.number().int().nonnegative(), doc_seq: z.number().int().nonnegative() })
      .optional(),
    /** false: no projection pages and no `cells` events (a peer that binds to the Yjs document itself). */
    projection: z.boolean().default(true),
  }),
)
export type Open = z.input<typeof Open>

export const Opened = lazily(() =>
  z.object({
    notebook_id: NotebookId,
    path: z.string().nullable(),
    title: z.string(),
    peer_id: z.string(),
    scope: Scope,
    connection_generation: z.number().int(),
    doc_seq: z.number().int(),
    event_seq: z.number().int(),
    /**
     * What follows OPENED, before live events. `current`: nothing was missed. `events`: every missed durable event, once each, in
     * order; the mirror keeps the outputs it has. `projection`: (a first open, or a resume that is too old, which also gets one
     * `gap`) fresh pages, then `replay` values for what is not terminal. `none`: the peer wants no projection.
     */
    picture: z.enum(['events', 'projection', 'current', 'none']),
    /**
     * With `events` or `current`: the document changed beyond the resumed doc_seq, so fresh `cells` pages come behind the missed
     * events, without `replay`; a page's outputs of an execution that is not terminal are empty and do not overrule the mirror's.
     */
    pages: z.boolean(),
    cell_count: z.number().int(),
    /** Notebook-level metadata. */
    metadata: z.record(z.string(), z.unknown()),
    /** They are too large for this frame: what is missing comes as a PROJECTION of kind `metadata`, before the cells. */
    metadata_follows: z.literal(true).optional(),
    readiness: Readiness,
    kernel: KernelSummary.nullable(),
    running: ExecutionSummary.nullable(),
    /** The first 100; `queued_total` tells all. */
    queued: z.array(ExecutionSummary),
    queued_total: z.number().int(),
    /** The first 100; `peers_total` tells all. Includes the new peer itself. */
    peers: z.array(PeerSummary),
    peers_total: z.number().int(),
  }),
)
export type Opened = z.output<typeof Opened>

export const Close = lazily(() =>
  z.object({
    /** `closed`: asked for. Else the reason of an OPEN that failed or of a detach by the daemon. */
    code: z.union([z.literal('closed'), WireCode]),
    reason: z.string(),
    error: WireError.optional(),
  }),
)
export type Close = z.output<typeof Close>

export const Fatal = lazily(() => z.object({ code: WireCode, message: z.string().max(3000) }))
export type Fatal = z.output<typeof Fatal>

export const GoAway = lazily(() =>
  z.object({
    reason: z.enum(['stop', 'restart', 'upgrade']),
    drain_ms: z.number(),
    next_version: z.string().optional(),
  }),
)
export type GoAway = z.output<typeof GoAway>

export const Request = lazily(() =>
  z.object({
    /** Unique among the connection's open requests on this channel. */
    id: z.number().int().positive(),
    method: z.string().max(100),
    params: z.unknown(),
    deadline_ms: z
      .number()
      .positive()
      .max(7 * 86_400_000)
      .optional(),
    mutation_id: MutationId.optional(),
    /** All mutation ids below it are settled and may be forgotten. */
    watermark: z.number().int().nonnegative().optional(),
    expect: z
      .object({
        doc_seq: z.number().int().optional(),
        event_seq: z.number().int().optional(),
        activation_generation: z.number().int().optional(),
      })
      .optional(),
  }),
)
export type Request = z.output<typeof Request>

export const Response = lazily(() =>
  z.union([
    z.object({ id: z.number().int(), ok: z.literal(true), value: z.unknown() }),
    z.object({ id: z.number().int(), ok: z.literal(false), error: WireError }),
  ]),
)
export type Response = z.output<typeof Response>

export const Cancel = lazily(() => z.object({ id: z.number().int().positive() }))
export type Cancel = z.output<typeof Cancel>

/** One PROJECTION value. */
export const Projection = lazily(() =>
  z.discriminatedUnion('kind', [
    z.object({
      kind: z.literal('cells'),
      start: z.number().int(),
      total: z.number().int(),
      cells: z.array(Cell),
      doc_seq: z.number().int(),
      event_seq: z.number().int(),
      last: z.boolean(),
    }),
    /** Output so far of an execution that is not terminal, as events the mirror applies in order. */
    z.object({
      kind: z.literal('replay'),
      execution_id: ExecutionId,
      events: z.array(DurableEvent),
      last: z.boolean(),
    }),
    /**
     * All comms that are open, in the order they were opened, before the `cells` of the same picture. A first picture of a room that has
     * none goes without. `first` begins a list that replaces the one before.
     */
    z.object({ kind: z.literal('comms'), first: z.boolean(), comms: z.array(CommView), last: z.boolean() }),
    /** All notebook-level metadata, where OPENED had no room for them. */
    z.object({ kind: z.literal('metadata'), metadata: z.record(z.string(), z.unknown()) }),
  ]),
)
export type Projection = z.output<typeof Projection>

/** Payload of EPHEMERAL: y-protocols awareness update, raw. First byte 1, then the update. */
export const EPHEMERAL_AWARENESS = 1
/** First byte of a DOC payload: y-protocols sync message (step 1, step 2, update) follows. */
export const DOC_SYNC = 0
