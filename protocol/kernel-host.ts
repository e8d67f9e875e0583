/**
 * What daemon and kernel host say to each other, over the same preamble and frames, on channel 0 only. The host listens; the
 * daemon dials and speaks as `client`. This protocol only grows: a newer daemon drives an older host, so every object here
 * is parsed loosely (unknown fields kept) and nothing is ever taken away.
 */
import { z } from 'zod'
import { BootId, KernelId } from './ids.ts'
import { lazily } from './lazily.ts'

/** Version of this sub-protocol, told in the host's WELCOME. */
export const HOST_API_VERSION = 1

/** Payload of HELLO on a host socket. */
export const HostHello = lazily(() =>
  z.looseObject({ boot_id: BootId, pid: z.number().int(), version: z.string() }),
)
export type HostHello = z.output<typeof HostHello>

/** Payload of WELCOME. A registry row is believed only when nonce, pid and start time agree. */
export const HostWelcome = lazily(() =>
  z.looseObject({
    nonce: z.string(),
    kernel_id: KernelId,
    host_pid: z.number().int(),
    host_api_version: z.number().int(),
    version: z.string(),
  }),
)
export type HostWelcome = z.output<typeof HostWelcome>

/** One Jupyter message as the host passes it on. `parent_id` is the parent header's msg_id. */
export const KernelMessage = lazily(() =>
  z.looseObject({
    channel: z.enum(['iopub', 'shell', 'stdin', 'control']),
    msg_type: z.string(),
    msg_id: z.string(),
    parent_id: z.string().nullable(),
    content: z.record(z.string(), z.unknown()),
    metadata: z.record(z.string(), z.unknown()),
    buffers: z.array(z.instanceof(Uint8Array)),
  }),
)
export type KernelMessage = z.output<typeof KernelMessage>

/** Payload of EVENT from the host. `seq` rises by one per kernel, across hosts; acknowledged by `acknowledge`. */
export const HostEvent = lazily(() =>
  z.discriminatedUnion('kind', [
    z.looseObject({
      kind: z.literal('message'),
      seq: z.number().int(),
      at: z.number(),
      message: KernelMessage,
    }),
    /** The kernel answered kernel_info and its iopub has spoken. `info` is kernel_info_reply's content. */
    z.looseObject({
      kind: z.literal('ready'),
      seq: z.number().int(),
      at: z.number(),
      /** null: a remote kernel. */
      pid: z.number().int().nullable(),
      info: z.record(z.string(), z.unknown()),
    }),
    /** The request's reply and its idle are both in (or idle was proved): nothing of it will follow. */
    z.looseObject({
      kind: z.literal('settled'),
      seq: z.number().int(),
      at: z.number(),
      request_id: z.string(),
      /** Content of the reply; null when the reply never came but the kernel proved idle. */
      reply: z.record(z.string(), z.unknown()).nullable(),
    }),
    /** The kernel process is gone; every request that was not settled is over. */
    z.looseObject({
      kind: z.literal('died'),
      seq: z.number().int(),
      at: z.number(),
      code: z.number().int().nullable(),
      signal: z.string().nullable(),
      /** Last lines of the kernel's stderr, at most 4 KiB. */
      stderr: z.string(),
      /** True when shutdown or restart was asked for. */
      expected: z.boolean(),
      /** The system killed it for want of memory. */
      out_of_memory: z.boolean().optional(),
      /** The whole story in one sentence, where there is no process to have a code or a signal: a remote kernel. */
      reason: z.string().optional(),
      /** The most resident memory it was seen with, in bytes; absent where that cannot be told. */
      peak_memory: z.number().optional(),
    }),
    /** Events that are not there any more, with the reason (host died, hard limit). */
    z.looseObject({ kind: z.literal('gap'), seq: z.number().int(), at: z.number(), reason: z.string() }),
    /** Remote kernels: the connection to the gateway was lost (`trouble` says why; the host dials again) or is there again (null). */
    z.looseObject({
      kind: z.literal('connection'),
      seq: z.number().int(),
      at: z.number(),
      trouble: z.string().nullable(),
    }),
  ]),
)
export type HostEvent = z.output<typeof HostEvent>

export const HostStatus = lazily(() =>
  z.looseObject({
    kernel_id: KernelId,
    nonce: z.string(),
    host_pid: z.number().int(),
    pid: z.number().int().nullable(),
    /** Kernel process start time in clock ticks since boot (Linux) or epoch ms; null where unknown. With pid it names one process. */
    pid_started: z.number().nullable(),
    state: z.enum(['starting', 'idle', 'busy', 'dead']),
    /** request_id of what runs. */
    running: z.string().nullable(),
    last_seq: z.number().int(),
    acknowledged: z.number().int(),
    waiting_input: z.boolean(),
    /** Bytes; null where it cannot be told. */
    memory: z.number().nullable(),
    /** Remote kernels: why there is no connection to the gateway just now. */
    trouble: z.string().optional(),
    peak_memory: z.number().nullable().optional(),
    /** Kernelspec it was started by, and the fingerprint of the environment it was started in; absent in older hosts. */
    spec: z.string().optional(),
    environment: z.string().optional(),
  }),
)
export type HostStatus = z.output<typeof HostStatus>

/** REQUESTs to the host: method → params and result. */
export const hostMethods = {
  /** Streams every event after `since` and all that follow as EVENT frames. One subscriber: the newest wins. */
  subscribe: {
    params: lazily(() => z.looseObject({ since: z.number().int().nonnegative() })),
    result: lazily(() => z.looseObject({ status: HostStatus })),
  },
  /** Everything up to `seq` is durable with the daemon and may be forgotten. */
  acknowledge: {
    params: lazily(() => z.looseObject({ seq: z.number().int() })),
    result: lazily(() => z.looseObject({})),
  },
  status: {
    params: lazily(() => z.looseObject({})),
    result: lazily(() => z.looseObject({ status: HostStatus })),
  },
  /**
   * Sends one request to the kernel, at most once per `request_id`, which is also its msg_id: written to the send log first. A
   * repeated id is answered from the log. `already_sent` tells which it was.
   */
  send: {
    params: lazily(() =>
      z.looseObject({
        request_id: z.string(),
        channel: z.enum(['shell', 'control', 'stdin']),
        msg_type: z.string(),
        content: z.record(z.string(), z.unknown()),
        metadata: z.record(z.string(), z.unknown()).optional(),
        /** Parent header msg_id: for `input_reply`, that of the `input_request`. */
        parent_id: z.string().nullable().optional(),
        buffers: z.array(z.instanceof(Uint8Array)).optional(),
      }),
    ),
    result: lazily(() => z.looseObject({ already_sent: z.boolean() })),
  },
  /** By the spec's interrupt_mode: SIGINT to the kernel's process group, or interrupt_request on control. */
  interrupt: { params: lazily(() => z.looseObject({})), result: lazily(() => z.looseObject({})) },
  /**
   * Ends the kernel: shutdown_request, then SIGTERM, then SIGKILL to its group, within `grace_ms`; answers when it is gone, then
   * the host exits.
   */
  shutdown: {
    params: lazily(() => z.looseObject({ grace_ms: z.number() })),
    result: lazily(() => z.looseObject({})),
  },
  /** Changes what the launch said. Older hosts answer `unsupported` and keep what they have. */
  configure: {
    params: lazily(() => z.looseObject({ orphan_grace_ms: z.number().nullable() })),
    result: lazily(() => z.looseObject({})),
  },
} as const

export type HostMethod = keyof typeof hostMethods

/** Environment variable that hands the gateway's token to the host, which takes it out of its environment at once. */
export const GATEWAY_TOKEN = 'ROOMD_GATEWAY_TOKEN'

export const RemoteLaunch = lazily(() =>
  z.looseObject({
    /** The gateway's name in the settings, for messages. */
    gateway: z.string(),
    /** Base URL of its API, e.g. `https://hub.example/user/me`. */
    url: z.string(),
    /** Name of the variable that the token was read from, for messages; null: no token. */
    token_env: z.string().nullable(),
    /** The gateway's own name of the kernelspec. */
    spec: z.string(),
    /** Handed to the gateway with the start (Enterprise Gateway passes variables that begin with KERNEL_ on to the kernel). */
    env: z.record(z.string(), z.string()),
    /** Adopt the kernel that the gateway knows under this id instead of starting one. */
    kernel_id: z.string().nullable(),
    /** That kernel's own session id, if it is known: another one means that the kernel was started anew. */
    kernel_session: z.string().nullable(),
  }),
)
export type RemoteLaunch = z.output<typeof RemoteLaunch>

/**
 * How a host is started: written as `launch.json` (0600) into the kernel's own 0700 folder `<state>/kernels/<kernel_id>/`,
 * which then also holds connection file, send log, spool, stderr and `host.json`. The kernel's environment is the host's own.
 */
export const HostLaunch = lazily(() =>
  z.looseObject({
    kernel_id: KernelId,
    nonce: z.string(),
    /** Socket to listen on; already shortened by the path-length rule. */
    socket: z.string(),
    /** Folder for ipc endpoints, likewise; empty string: use tcp ports. */
    ipc_dir: z.string(),
    /** Empty for a remote kernel. */
    argv: z.array(z.string()),
    cwd: z.string(),
    interrupt_mode: z.enum(['signal', 'message']),
    transport: z.enum(['ipc', 'tcp']),
    /** Milliseconds an idle kernel lives without any daemon; null: for ever. */
    orphan_grace_ms: z.number().nullable(),
    /** First sequence number to use: after a host's death the new host counts on. */
    first_seq: z.number().int().default(1),
    /** Name of the kernelspec; told in `status`. */
    spec: z.string().optional(),
    /** First 16 hex digits of SHA-256 over the sorted variables that the kernel gets; told in `status`. */
    environment: z.string().optional(),
    /** Adopt this running kernel instead of starting one. */
    adopt: z.looseObject({ pid: z.number().int(), pid_started: z.number().nullable() }).optional(),
    /**
     * A kernel that a gateway runs, in place of a process of this machine: then argv, transport and ipc_dir mean nothing. The
     * gateway's token is in the host's environment under `GATEWAY_TOKEN`, never here.
     */
    remote: RemoteLaunch.optional(),
  }),
)
export type HostLaunch = z.output<typeof HostLaunch>

/**
 * An event too large for one EVENT frame comes as parts, in order, one after the other; their bytes joined are the encoded
 * HostEvent. Sequence numbers and acknowledgement are the event's.
 */
export const HostPart = lazily(() =>
  z.looseObject({
    kind: z.literal('part'),
    seq: z.number().int(),
    bytes: z.instanceof(Uint8Array),
    last: z.boolean(),
  }),
)
export type HostPart = z.output<typeof HostPart>

/** Payload of REQUEST to a host; `params` by `hostMethods`. Answered by a RESPONSE as protocol/channels.ts has it. */
export const HostRequest = lazily(() =>
  z.looseObject({ id: z.number().int(), method: z.string(), params: z.unknown() }),
)
export type HostRequest = z.output<typeof HostRequest>
