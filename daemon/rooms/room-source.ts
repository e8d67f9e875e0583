/**
 * A room and its file: one line in which the file is looked at, merged, written and reconciled, one thing at a time; the watch that
 * says when to look; autosave; the claim that keeps daemons of other homes away.
 *
 * Invariants: nothing looks at or writes the file outside of the line; the room is never changed by a look whose bytes are not
 * on disk. What fails by itself (a look, an autosave) is told as the source's state or reason and never thrown at nobody.
 */
import { basename, dirname } from 'node:path'
import { RoomdError } from '../../protocol/errors.ts'
import type { DurableEvent } from '../../protocol/events.ts'
import type { MethodResult } from '../../protocol/methods.ts'
import type { Claim } from '../documents/file-claims.ts'
import type { FileIdentity } from '../documents/file-witness.ts'
import { removeLeftovers } from '../documents/save.ts'
import { Autosave } from './autosave.ts'
import { convert } from './converting.ts'
import { lookAgain, lookAtFile, type ReadFile, tell } from './disk-changes.ts'
import { findMoved } from './moved-files.ts'
import { reconcile } from './reconciling.ts'
import { forgetBase } from './refounding.ts'
import type { Room } from './room.ts'
import { recordByPath, updateBinding } from './room-record.ts'
import type { FileSurroundings, RoomsContext } from './rooms-context.ts'
import { Saver } from './saving.ts'
import { bare, restored } from './source-after.ts'
import { mayAutosave } from './source-states.ts'

/** Between an event of the watch and the look: programs write in several steps. */
export const SETTLE_MS = 100
/** A file that is away, or no notebook, is looked at once more after this long: it may have been in the middle of being written. */
export const PATIENCE_MS = 500
/** A room that nobody uses lets other daemons have its file after this long. */
export const HAND_OFF_MS = 60_000
/** Times that a save takes in what another program wrote at the same moment. */
const SAVE_TRIES = 4

export class RoomSource {
  readonly saver: Saver
  readonly autosave: Autosave
  readonly #context: RoomsContext
  readonly #files: FileSurroundings
  readonly #room: Room
  #line: Promise<unknown> = Promise.resolve()
  /** Things in the line. */
  #working = 0
  #watching: { readonly path: string; readonly stop: () => void } | null = null
  #claimed: string | null = null
  #identity: FileIdentity | null = null
  #cancelLook: (() => void) | null = null
  #cancelHandOff: (() => void) | null = null
  /** Outputs changed since the last save, as far as is known. */
  #outputsChanged: boolean
  #disposed = false

  constructor(context: RoomsContext, files: FileSurroundings, room: Room) {
    this.#context = context
    this.#files = files
    this.#room = room
    this.saver = new Saver(context, room)
    this.#outputsChanged = ranSinceSaved(context, room)
    this.autosave = new Autosave(context.clock, {
      wanted: () => this.#wanted(),
      save: () => this.#autosave(),
    })
  }

  /** Something of the file is at work or due: the room stays in memory. */
  get busy(): boolean {
    return this.#working > 0 || this.autosave.pending
  }

  /**
   * Room and file differ, and nothing will mend that by itself: a conflict that nobody has settled, a file that is no notebook
   * now, edits that are not saved by themselves. The room stays in memory, where lists show it and the watch goes on.
   */
  get unsettled(): boolean {
    const { path, source, doc_seq, saved_doc_seq } = this.#room.record
    if (path === null) return false
    return source.state === 'conflict' || source.state === 'modified_outside' || doc_seq !== saved_doc_seq
  }

  /**
   * Claims the file, takes what happened to it while nobody watched, and watches it from now on. `read`: it was read for this a
   * moment ago.
   */
  async open(read: ReadFile | null = null): Promise<void> {
    const other = await this.#acquire()
    const { path, source } = this.#room.record
    if (path !== null && other === null && source.pending) await removeLeftovers(path)
    if (path !== null && this.#room.document.incomplete)
      await this.#room.commit({ statements: forgetBase(this.#room.record) })
    // First: what happens behind the look is heard.
    this.#watch()
    const still = read && (await this.#inLine(() => lookAgain(this.#room, read)))
    if (still) {
      this.#identity = still
      this.#outputsAfterLook()
    } else await this.look(false)
    this.autosave.changed()
  }

  /**
   * Takes (back) the claim on the file, and looks what others did to it meanwhile. Returns who else has it; the room is then
   * read-only.
   */
  async acquire(): Promise<Claim | null> {
    const before = this.#claimed
    const other = await this.#acquire()
    if (other === null && this.#claimed !== before) await this.look(false)
    return other
  }

  /** A committed change of the room: what is to be saved by itself. */
  changed(document: boolean, events: readonly DurableEvent[]): void {
    if (events.some(changesOutputs)) this.#outputsChanged = true
    else if (!document) return
    const { record } = this.#room
    if (document && record.autosave === 'paused' && record.doc_seq !== record.saved_doc_seq)
      record.autosave = 'on'
    this.autosave.changed()
  }

  /** The file lacks something of the room, although its counters do not say so. */
  mustSave(): void {
    this.#outputsChanged = true
    this.autosave.changed()
  }

  /** Looks at the file behind what is under way; see disk-changes.ts. */
  look(patient: boolean): Promise<void> {
    return this.#inLine(() => this.#look(patient))
  }

  /** Saves behind what is under way. What another program wrote meanwhile is merged first; a conflict refuses. */
  save(path: string | undefined): Promise<MethodResult<'save'>> {
    return this.#inLine(async () => {
      if (path !== undefined && path !== this.#room.record.path) return this.#saveElsewhere(path)
      return this.#save(false)
    })
  }

  /** Upgrades a file of an old format in place, and claims it for writing. */
  convert(): Promise<void> {
    return this.#inLine(async () => {
      await convert(this.#room)
      await this.#acquire()
    })
  }

  reconcile(keep: 'room' | 'disk' | 'both', by: string): Promise<MethodResult<'reconcile_source'>> {
    return this.#inLine(() => reconcile(this.#room, keep, by))
  }

  /** Peers left or came: a file that nobody uses here may be used elsewhere. */
  considerHandOff(): void {
    this.#cancelHandOff?.()
    this.#cancelHandOff = null
    if (this.#disposed || this.#claimed === null || !this.#room.unused) return
    this.#cancelHandOff = this.#context.clock.after(HAND_OFF_MS, () => {
      this.#cancelHandOff = null
      if (this.#room.unused && !this.busy) this.#letGo()
      else if (this.#room.unused) this.considerHandOff()
    })
  }

  /** Saves what is to be saved by itself. Never rejects: what could not be saved is told, and kept in the store. */
  async flush(): Promise<void> {
    await this.autosave.flush()
    await this.#line
  }

  /** Ends watching. What is under way ends by itself; the claim goes. */
  dispose(): void {
    if (this.#disposed) return
    this.#disposed = true
    this.autosave.dispose()
    this.#cancelLook?.()
    this.#cancelHandOff?.()
    this.#watching?.stop()
    this.#letGo()
  }

  // --- within --------------------------------------------------------------------------------------------------------

  async #acquire(): Promise<Claim | null> {
    const { path, source } = this.#room.record
    if (path === null || source.read_only === 'format' || this.#claimed === path) return null
    this.#cancelHandOff?.()
    const other = await this.#files.claims.take(path)
    if (other === null) {
      this.#claimed = path
      if (source.read_only === 'elsewhere') await this.#tell(restored(source))
    } else {
      const reason = `${path} is open in another daemon (pid ${other.pid}, home ${other.home})`
      await this.#tell({ ...bare(source), state: 'read_only', reason, read_only: 'elsewhere' })
    }
    return other
  }

  #inLine<T>(task: () => Promise<T>): Promise<T> {
    this.#working++
    const next = this.#line.then(task)
    this.#line = next
      .catch(() => {}) // told to who asked for it
      .then(() => {
        this.#working--
      })
    return next
  }

  async #look(patient: boolean): Promise<void> {
    if (this.#disposed) return
    let look = await lookAtFile(this.#room, patient)
    if (look.found === 'renamed') {
      await this.#rebind(look.path)
      look = await lookAtFile(this.#room, patient)
    }
    if (look.found === 'settled') {
      if (look.identity) this.#identity = look.identity
      this.#outputsAfterLook()
      this.autosave.consider()
      if (this.#room.record.source.state === 'missing') await this.#followMoved()
      return
    }
    if (look.found === 'unsettled' && look.gone && (await this.#followMoved())) return
    this.#lookAfter(PATIENCE_MS, false)
  }

  /** A merged change may leave outputs that the file lacks. */
  #outputsAfterLook(): void {
    if (this.saver.differs) this.mustSave()
  }

  /** Finds where a file went that was renamed or moved; true: the room went with it. */
  async #followMoved(): Promise<boolean> {
    const { record } = this.#room
    const { path, source } = record
    if (path === null || this.#identity === null || source.hash === undefined) return false
    const moved = await findMoved(path, this.#identity, source.hash, this.#files.watch.folders())
    if (moved === null || recordByPath(this.#context.store, moved)) return false
    await this.#rebind(moved)
    this.#lookAfter(SETTLE_MS, true)
    return true
  }

  /** The file has this path from now on; nothing of it changed. */
  async #rebind(moved: string): Promise<void> {
    const { record } = this.#room
    const from = record.path
    this.#context.log.info({ room: this.#room.id, from, to: moved }, 'the file was moved; following it')
    this.#letGo()
    record.path = moved
    record.title = basename(moved)
    // A kernel starts beside its notebook; the folder that it was in may be gone.
    if (record.kind === 'in-place' && from !== null && record.working_dir === dirname(from))
      record.working_dir = dirname(moved)
    record.source = restored(record.source)
    const { state, reason } = record.source
    await this.#room.commit({
      statements: [updateBinding(record)],
      events: [{ type: 'source', path: moved, state, ...(reason === undefined ? {} : { reason }) }],
    })
    this.#watch()
    await this.#acquire()
  }

  async #save(auto: boolean): Promise<MethodResult<'save'>> {
    for (let tries = 1; ; tries++) {
      const known = this.#room.record.source.state === 'missing'
      await this.#look(false)
      const { state, reason } = this.#room.record.source
      // Whoever deleted it may have meant it: it is written anew by who knows that it is gone.
      if (state === 'missing' && !known)
        throw new RoomdError('source_conflict', `${reason ?? 'the file is gone'}; save again to do so`, {
          next: { tool: 'save_notebook', arguments: {} },
        })
      try {
        this.#outputsChanged = false
        return await this.saver.save({ auto })
      } catch (error) {
        this.#outputsChanged = true
        const changedAgain = error instanceof RoomdError && error.code === 'source_conflict'
        // Another program wrote between the look and the rename: its change is taken and the room saved on top.
        if (!changedAgain || tries >= SAVE_TRIES || this.#room.record.source.state === 'conflict') throw error
      }
    }
  }

  async #saveElsewhere(path: string): Promise<MethodResult<'save'>> {
    const before = this.#claimed
    const saved = await this.saver.save({ path })
    this.#outputsChanged = false
    if (before !== null && before !== saved.path) {
      this.#claimed = null
      await this.#files.claims.release(before)
    }
    await this.#acquire()
    this.#watch()
    await this.#look(false)
    return saved
  }

  #wanted(): boolean {
    const { record, fault } = this.#room
    if (record.path === null || fault || !mayAutosave(record.source)) return false
    if (record.autosave === 'off') return false
    if (record.doc_seq !== record.saved_doc_seq) return true
    return this.#outputsChanged && record.autosave === 'on'
  }

  async #autosave(): Promise<boolean> {
    try {
      await this.#inLine(async () => {
        // What stood before it in the line may have done the work, or closed it.
        if (this.#wanted()) await this.#save(true)
      })
      return true
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#context.log.warn({ room: this.#room.id, reason }, 'the room could not be saved by itself')
      const { source } = this.#room.record
      if (source.state === 'ready') await this.#tell({ ...source, reason: `not saved by itself: ${reason}` })
      return !mayAutosave(this.#room.record.source)
    }
  }

  /** Tells a state of the source; where not even that can be stored, the room's fault says it. */
  async #tell(source: Parameters<typeof tell>[1]): Promise<void> {
    await tell(this.#room, source).catch((error: unknown) => {
      this.#context.log.warn(
        { room: this.#room.id, error: String(error) },
        'the state of a file was not stored',
      )
    })
  }

  #watch(): void {
    const { path } = this.#room.record
    if (this.#watching?.path === path || this.#disposed) return
    this.#watching?.stop()
    this.#watching = null
    if (path === null) return
    const stop = this.#files.watch.watch(path, () => this.#lookAfter(SETTLE_MS, true))
    this.#watching = { path, stop }
  }

  #lookAfter(ms: number, patient: boolean): void {
    if (this.#disposed || (this.#cancelLook && patient)) return
    this.#cancelLook?.()
    this.#cancelLook = this.#context.clock.after(ms, () => {
      this.#cancelLook = null
      this.look(patient).catch((error: unknown) => {
        this.#context.log.warn(
          { room: this.#room.id, error: String(error) },
          'the file could not be looked at',
        )
      })
    })
  }

  #letGo(): void {
    const path = this.#claimed
    this.#claimed = null
    if (path === null) return
    this.#files.claims.release(path).catch((error: unknown) => {
      this.#context.log.warn({ path, error: String(error) }, 'a claim was not released')
    })
  }
}

function changesOutputs(event: DurableEvent): boolean {
  if (event.type === 'cells_cleared') return true
  return event.type === 'execution_finished' && event.execution.origin === 'peer'
}

/** Whether something ended since the last save, as far as the events are kept. */
function ranSinceSaved({ store }: RoomsContext, room: Room): boolean {
  const row = store.get(
    `SELECT 1 FROM events WHERE notebook_id = ? AND event_seq > ?
       AND (instr(body, CAST('execution_finished' AS BLOB)) > 0 OR instr(body, CAST('cells_cleared' AS BLOB)) > 0) LIMIT 1`,
    room.id,
    room.record.saved_event_seq,
  )
  return row !== undefined
}
