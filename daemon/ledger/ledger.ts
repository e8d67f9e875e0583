/**
 * The ledger's one door on the main thread. A changing call becomes one procedure of the store's writer; a reading one reads committed
 * rows here. Owns the spool of hooks, the mirror, imports and exports, and what is forgotten with time.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { Settings } from '../../protocol/config.ts'
import type { LedgerMethod } from '../../protocol/ledger.ts'
import type { Mutation, Mutations } from '../rooms/mutations.ts'
import type { RequestContext } from '../rooms/seam.ts'
import type { ProcedureStore } from '../store/store.ts'
import type { Call, LedgerParams, LedgerResult, Outcome } from './call.ts'
import { nameFault } from './grammar.ts'
import type { Failure } from './outcome.ts'
import type { ChangingTool } from './procedures.ts'
import { getContext } from './reading/context.ts'
import { hookContext } from './reading/hook-context.ts'
import { list } from './reading/list.ts'
import { load } from './reading/load.ts'
import { query } from './reading/query.ts'
import { sharingTags } from './reading/related.ts'
import { searchTags } from './reading/search-tags.ts'
import { show } from './reading/show.ts'
import { getWorkItems } from './reading/work-items.ts'
import { findSession } from './rows/sessions.ts'
import { readSourceFiles, type SourceFiles } from './source-files.ts'
import { Spool } from './spool.ts'
import { Mirror } from './tree/mirror.ts'
import { TreeThread } from './tree/tree-thread.ts'
import { exportTree, importTrees, type TreesOptions } from './trees.ts'

export interface LedgerOptions {
  readonly store: ProcedureStore
  readonly mutations: Mutations
  readonly clock: Clock
  readonly log: Logger
  readonly settings: Settings['ledger']
  /** Folder for hook events that came while the daemon was away. */
  readonly spool: string
  /** Trees in which other programs leave traces for finalizing, and in which an import looks by itself. */
  readonly usualRoots: readonly string[]
  /** For copies of files that an import cannot read. */
  readonly quarantine: string
  /** Path of the store's database, for the thread that writes trees. */
  readonly storeFile: string
}

/** Whose call it is, where nobody's request is behind it. */
const NOBODY = 'spool'
/** How often time takes away what is old. */
const FORGET_MS = 3_600_000
/** Milliseconds that the mirror waits for another writer of its tree. */
const MIRROR_CLAIM_MS = 2_000

export class Ledger {
  readonly #options: LedgerOptions
  readonly #spool: Spool
  readonly #tree: TreeThread
  readonly #mirror: Mirror | null
  readonly #trees: TreesOptions
  #cancelForget: () => void = () => {}

  constructor(options: LedgerOptions) {
    this.#options = options
    const { store, clock, log, settings } = options
    this.#tree = new TreeThread(options.storeFile)
    this.#mirror =
      settings.mirror === null
        ? null
        : new Mirror({
            dir: settings.mirror,
            tree: this.#tree,
            options: { compat: settings.compat, claimMs: MIRROR_CLAIM_MS, merge: true },
            clock,
            log,
          })
    this.#trees = {
      store,
      tree: this.#tree,
      settings: { compat: settings.compat, tagPrompts: settings.tag_prompts },
      quarantine: options.quarantine,
      usual: options.usualRoots,
      now: () => clock.now(),
      changed: (names) => this.#mirror?.changed(names),
    }
    this.#spool = new Spool({
      folder: options.spool,
      log: options.log,
      take: (event) => this.#takeHook(event, NOBODY),
    })
    void this.#spool.drain()
    this.#forgetLater(0)
  }

  /** Arguments are parsed, the scope is checked. Rejects with what the store or the disk refused. */
  async request(method: LedgerMethod, args: unknown, context: RequestContext): Promise<unknown> {
    const { store, settings } = this.#options
    const compat = { compat: settings.compat }
    switch (method) {
      case 'session_list':
        return list(store, args as LedgerParams<'session_list'>, settings.mirror)
      case 'session_query':
        return query(store, args as LedgerParams<'session_query'>, settings.mirror)
      case 'session_load':
        return load(store, args as LedgerParams<'session_load'>, { ...compat, mirror: settings.mirror })
      case 'session_get_context':
        return getContext(store, args as LedgerParams<'session_get_context'>, compat)
      case 'session_search_tags':
        return searchTags(store, args as LedgerParams<'session_search_tags'>)
      case 'session_get_work_items':
        return getWorkItems(store, args as LedgerParams<'session_get_work_items'>)
      case 'session_show':
        return show(store, args as LedgerParams<'session_show'>, { ...compat, mirror: settings.mirror })
      case 'session_import':
        return importTrees(this.#trees, args as LedgerParams<'session_import'>)
      case 'session_export':
        return exportTree(this.#trees, args as LedgerParams<'session_export'>)
      case 'session_hook':
        // What waits is older: it comes first.
        await this.#spool.drain()
        return this.#takeHook(args as LedgerParams<'session_hook'>, context.identity.clientInstance)
      case 'session_tag':
        return this.#withRelated(await this.#change(method, args, context))
      case 'session_finalize': {
        const { session_id } = args as LedgerParams<'session_finalize'>
        return this.#change(method, args, context, await this.#filesFor(session_id))
      }
      default:
        return this.#change(method, args, context)
    }
  }

  /** Archives, deletes and forgets what is old, as the settings say; goes on while there is more. */
  async forgetOld(): Promise<void> {
    const { store, clock, settings } = this.#options
    for (;;) {
      const { archived, deleted, forgotten } = await store.transact('ledger_forget', {
        now: Math.round(clock.now() * 1000),
        settings,
      })
      const all = [...archived, ...deleted, ...forgotten]
      if (all.length === 0) return
      this.#mirror?.changed(all)
    }
  }

  /** Before the store closes. */
  async dispose(): Promise<void> {
    this.#cancelForget()
    await this.#spool.dispose()
    await this.#mirror?.dispose()
    await this.#tree.dispose()
  }

  #forgetLater(ms: number): void {
    const { clock, log } = this.#options
    this.#cancelForget = clock.after(ms, () => {
      this.forgetOld().catch((error) => log.warn({ err: error }, 'old sessions were not forgotten'))
      this.#forgetLater(FORGET_MS)
    })
  }

  async #change(
    tool: ChangingTool,
    params: unknown,
    context: RequestContext,
    files?: SourceFiles,
  ): Promise<unknown> {
    const { mutations } = this.#options
    const { clientInstance } = context.identity
    if (context.mutationId === undefined) return this.#run(tool, params, clientInstance, null, files)
    const key = { clientInstance, id: context.mutationId, watermark: context.watermark }
    return mutations.run(key, tool, null, (mutation) =>
      this.#run(tool, params, clientInstance, mutation, files),
    )
  }

  async #run(
    tool: ChangingTool,
    params: unknown,
    clientInstance: string,
    mutation: Mutation | null,
    files?: SourceFiles,
    at?: number,
  ): Promise<unknown> {
    const { store, mutations, clock, settings } = this.#options
    const call: Call<unknown> = {
      params,
      now: Math.round((at ?? clock.now()) * 1000),
      clientInstance,
      settings: { compat: settings.compat, tagPrompts: settings.tag_prompts },
      mirror: settings.mirror,
      ...(files === undefined ? {} : { files }),
    }
    const outcome: Outcome = await store.transact('ledger_call', {
      tool,
      call,
      mutation:
        mutation === null
          ? null
          : {
              clientInstance: mutation.clientInstance,
              id: mutation.id,
              method: mutation.method,
              notebookId: mutation.notebookId,
              forget: mutations.forgettingRows(mutation.clientInstance),
            },
    })
    this.#mirror?.changed(outcome.changed)
    return outcome.value
  }

  async #takeHook(event: LedgerParams<'session_hook'>, clientInstance: string): Promise<unknown> {
    const { store } = this.#options
    const sessionId = typeof event.input.session_id === 'string' ? event.input.session_id : ''
    const finalizes = event.event === 'Stop' || event.event === 'SessionEnd'
    const files = finalizes ? await this.#filesFor(sessionId) : undefined
    const value = (await this.#run(
      'session_hook',
      event,
      clientInstance,
      null,
      files,
      event.at,
    )) as LedgerResult<'session_hook'>
    const goesOn =
      event.event === 'SessionStart' && ['clear', 'resume', 'compact'].includes(String(event.input.source))
    return goesOn && value.session_id !== null
      ? { ...value, context: hookContext(store, value.session_id) }
      : value
  }

  #withRelated(value: unknown): unknown {
    const { store } = this.#options
    const result = value as LedgerResult<'session_tag'> | Failure
    const row =
      result.success && 'session_id' in result ? findSession(store, result.session_id ?? '') : undefined
    if (!row) return result
    const { rev, ...rest } = result
    return { ...rest, auto_related: sharingTags(store, row.session_key), rev }
  }

  async #filesFor(sessionId: string): Promise<SourceFiles> {
    const { usualRoots, settings } = this.#options
    // An id that breaks the grammar names no folder; the call itself is refused for it.
    if (nameFault(sessionId, 'session_id')) return {}
    return readSourceFiles([...(settings.mirror === null ? [] : [settings.mirror]), ...usualRoots], sessionId)
  }
}
