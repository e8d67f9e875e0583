/**
 * A kernel as the daemon sees it, whatever runs it (a process of this machine, a gateway). Sequence numbers are the host's; an
 * event is given again after a reconnect until it is acknowledged.
 */
import type { KernelId, NotebookId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import type { KernelSpecSummary } from '../../protocol/methods.ts'
import type { KernelSummary } from '../../protocol/notebook.ts'
import type { ProcessIdentity } from '../kernel-host/process-identity.ts'

export interface KernelRequest {
  /** Also the msg_id. The host sends it at most once whatever is repeated. */
  readonly requestId: string
  readonly channel: 'shell' | 'control' | 'stdin'
  readonly msgType: string
  readonly content: Record<string, unknown>
  readonly metadata?: Record<string, unknown>
  readonly parentId?: string | null
  readonly buffers?: Uint8Array[]
}

export interface Kernel {
  readonly id: KernelId
  readonly name: string
  readonly language: string
  /** The kernel's own process; absent or null where it is not on this machine or not known yet. */
  readonly process?: ProcessIdentity | null
  summary(): KernelSummary
  /** Last host event given to the listener. */
  readonly seq: number
  /**
   * Sets the one listener and starts the stream of events after `since` (what the store has consumed). Events come in order,
   * each once per connection to the host; a lost connection to a living host is redialled and resumed without the listener
   * noticing. A host that died while its kernel lives is replaced, with a `gap` event.
   */
  listen(since: number, listener: (event: HostEvent) => void): void
  /** Everything up to `seq` is durable here. */
  acknowledge(seq: number): void
  /** Resolves when the host has logged and sent it. Repeats by itself over reconnects; rejects `kernel_died`. */
  send(request: KernelRequest): Promise<{ alreadySent: boolean }>
  /** Sends on shell and resolves with the reply's content; for complete, inspect. Rejects on `kernel_died` or abort. */
  ask(
    msgType: string,
    content: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<Record<string, unknown>>
  interrupt(): Promise<void>
  /** How long (ms) the kernel lives idle without a daemon from now on; null: for ever. */
  keepFor(graceMs: number | null): void
  /** Ends kernel and host; resolves when both are gone. */
  shutdown(graceMs?: number): Promise<void>
  /** Lets go of the host connection and leaves kernel and host running (daemon shutdown). */
  release(): void
}

export interface StartRequest {
  readonly notebookId: NotebookId
  /** Kernelspec name. */
  readonly name: string
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  /** Absolute path of a program that takes the place of the kernelspec's own. */
  readonly interpreter?: string
  /** A mark made at birth: started before anybody asked for it. Says nothing of what it is later. */
  readonly standby?: boolean
  readonly orphanGraceMs: number | null
  /** Aborted: the start is called off and what was begun is ended; `start` rejects kernel_start_failed. */
  readonly signal?: AbortSignal
}

export interface KernelProvider {
  /** All kernelspecs, embedded one included; fresh on each call. */
  specs(): Promise<KernelSpecSummary[]>
  /** The environment that kernels get, before a kernelspec's and a project's own variables. */
  environment(): Promise<Readonly<Record<string, string>>>
  /** Absolute path of the program that a kernelspec starts. Throws kernel_not_found. */
  program(name: string): Promise<string>
  /** The design's default order: notebook's name → same language → python3 → javascript. Throws kernel_not_found. */
  choose(wanted: { name?: string; language?: string }): Promise<KernelSpecSummary>
  /**
   * Starts kernel and host; resolves when the kernel is ready, which is when kernel_info and iopub have spoken. Writes the
   * kernel's row before the host is spawned. Rejects kernel_not_found, kernel_start_failed (with last lines of stderr).
   */
  start(request: StartRequest): Promise<Kernel>
  /** After a daemon's start: every kernel in the store whose host or process still lives; rows of others are removed and told in `gone`. */
  adopt(): Promise<{ kernels: AdoptedKernel[]; gone: GoneKernel[] }>
  running(): Kernel[]
  dispose(): void
}

export interface AdoptedKernel {
  readonly kernel: Kernel
  readonly notebookId: NotebookId
}

export interface GoneKernel {
  readonly kernelId: KernelId
  readonly notebookId: NotebookId
  readonly reason: string
}
