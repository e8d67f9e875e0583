/**
 * Turns host events into changes of executions. One call of `take` is one change: outputs, events and the number of the last host
 * event consumed commit together, and only then is it acknowledged to the kernel. So a crash between any two steps repeats from
 * the last commit, and nothing is doubled.
 *
 * While a change is on its way to the disk, what comes meanwhile gathers and becomes the next one. A text that is longer than a slice
 * is taken in parts; the execution's row then says how much of that event is in.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../protocol/clock.ts'
import type { ExecutionId, KernelId } from '../../protocol/ids.ts'
import type { HostEvent } from '../../protocol/kernel-host.ts'
import { isTerminal } from '../../protocol/notebook.ts'
import type { Kernel } from '../kernels/kernel.ts'
import type { Statement, Store } from '../store/store.ts'
import type { Blobs } from './blobs.ts'
import type { RecordBook } from './book.ts'
import { Change, wholeUnits } from './change.ts'
import type { RoomComms } from './comms/room-comms.ts'
import { DisplayIds } from './display-ids.ts'
import { Intake, type IntakeItem } from './intake.ts'
import type { Live } from './live.ts'
import type { Display, Reply } from './messages.ts'
import type { ExecutionLimits } from './options.ts'
import { consumed } from './rows.ts'

/** Changes on their way to the disk at once while slices are full: the next is made while the writer works at those before. */
const MOST_COMMITTING = 4

/** A host that dies again and again must not make a row grow without bound. */
const KEPT_GAPS = 100

/** A change being made, with the executions whose rows it touches. */
export interface Draft {
  readonly change: Change
  readonly touched: Set<Live>
}

export interface ConsumerPort {
  readonly store: Store
  readonly book: RecordBook
  readonly blobs: Blobs
  comms(): RoomComms
  readonly clock: Clock
  readonly log: Logger
  readonly limits: ExecutionLimits
  /** Hands the change over; resolves after its commit, rejects when the room is rebuilding itself. */
  commit(draft: Draft, more: readonly Statement[]): Promise<void>
  /** The kernel began to run it. */
  started(live: Live): void
  /** The kernel is done with it. */
  settled(live: Live, reply: Reply | null, at: number, draft: Draft): void
  died(event: Extract<HostEvent, { kind: 'died' }>, draft: Draft): void
}

export class Consumer {
  readonly #port: ConsumerPort
  readonly #intake: Intake
  #kernel: KernelId | null = null
  /** Last host event pushed, taken, and told to be consumed. */
  #pushed = 0
  #takenSeq = 0
  #told = 0
  #committing = 0
  /** The last slice was full: the next is made while that one is written. */
  #full = false
  /** It was time to take, but a change was on its way. */
  #missed = false
  #disposed = false
  readonly #displays: DisplayIds

  constructor(port: ConsumerPort) {
    this.#port = port
    const { clock, limits, blobs, log } = port
    this.#displays = new DisplayIds(port.book)
    this.#intake = new Intake({ clock, limits, blobs, log, take: () => this.#takeIfDue() })
  }

  /** Everything that came is taken, and its last event was this. */
  consumedAll(kernel: Kernel): boolean {
    return this.#intake.empty && (this.#kernel !== kernel.id || this.#pushed >= kernel.seq)
  }

  push(kernel: Kernel, event: HostEvent): void {
    if (this.#kernel !== kernel.id) this.#begin(kernel)
    if (event.seq <= this.#pushed) return // given again after a reconnect
    this.#pushed = event.seq
    this.#intake.push(kernel, event)
  }

  /** Takes a slice of what is ready now, whatever its time. true: everything that came is taken. */
  hurry(): boolean {
    if (this.#intake.peek()) this.#take()
    return this.#intake.empty
  }

  /** Resolves when everything that came is taken, also what waits for blobs. */
  drained(): Promise<void> {
    return this.#intake.whenEmpty()
  }

  /** The kernel is gone: display ids of its outputs mean nothing to the next. */
  forgetKernel(): void {
    this.#displays.forget()
  }

  dispose(): void {
    this.#disposed = true
    this.#intake.dispose()
  }

  #begin(kernel: Kernel): void {
    this.#kernel = kernel.id
    const row = this.#port.store.get<{ consumed_seq: number }>(
      'SELECT consumed_seq FROM kernels WHERE kernel_id = ?',
      kernel.id,
    )
    this.#pushed = row?.consumed_seq ?? 0
    this.#told = this.#pushed
    this.#takenSeq = this.#pushed
    this.#displays.forget()
  }

  /** Looks at what is due beside events: a question that a daemon before this one had not shown yet. */
  wake(): void {
    this.#takeIfDue()
  }

  #takeIfDue(): void {
    if (this.#disposed) return
    this.#missed = this.#committing >= (this.#full ? MOST_COMMITTING : 1)
    if (!this.#missed) this.#take()
  }

  #take(): void {
    const draft: Draft = { change: new Change(), touched: new Set() }
    const { limits, book } = this.#port
    let units = limits.sliceUnits
    let full = false
    let kernel: Kernel | null = null
    for (let item = this.#intake.peek(); item; item = this.#intake.peek()) {
      // One change acknowledges to one kernel.
      if (kernel && kernel !== item.kernel) {
        full = true
        break
      }
      if (units <= 0) {
        full = true
        break
      }
      if (kernel !== item.kernel) this.#port.comms().begin(item.kernel.id, draft.change)
      kernel = item.kernel
      const left = this.#apply(item, draft, units)
      units = left.units
      if (!left.done) {
        full = true
        break
      }
      this.#takenSeq = item.event.seq
      this.#intake.shift()
    }
    this.#full = full
    this.#intake.taken(full)
    this.#finishSlice(draft)
    this.#handOver(draft, kernel)
    // Late executions that nothing came of need not stay.
    for (const live of draft.touched) if (live.pins === 0 && live.terminal) book.release(live)
  }

  /** What was gathered becomes visible: joined text, previews of cut output, final forms of what came late. */
  #finishSlice({ change, touched }: Draft): void {
    const { book, clock } = this.#port
    const comms = this.#port.comms()
    comms.flush(change)
    for (const live of book.open) if (live.recorder.previewing || asks(live)) touched.add(live)
    for (const live of touched) {
      if (live.terminal) live.recorder.seal(change)
      else live.recorder.flush(change)
      const next = live.recorder.preview(change, clock.now())
      if (next !== null) this.#intake.wakeAt(next)
      if (asks(live)) this.#showQuestion(live, change)
    }
  }

  /** Behind what was printed before it, as far as that has come. */
  #showQuestion(live: Live, change: Change): void {
    const { input } = live.detail
    const { clock } = this.#port
    if (!input) return
    if (live.question && live.question.at > clock.now()) {
      this.#intake.wakeAt(live.question.at)
      return
    }
    live.question = null
    live.row.status = 'waiting_for_input'
    const { prompt, password } = input
    change.push({ type: 'input_requested', execution_id: live.id, prompt, password })
  }

  #handOver(draft: Draft, kernel: Kernel | null): void {
    const seq = this.#takenSeq
    const acknowledges = kernel !== null && seq > this.#told ? kernel : null
    if (acknowledges) this.#told = seq
    if (!acknowledges && draft.touched.size === 0 && draft.change.events.length === 0) return
    this.#committing++
    this.#port.commit(draft, acknowledges ? [consumed(acknowledges.id, seq)] : []).then(
      () => {
        this.#committing--
        if (this.#disposed) return
        acknowledges?.acknowledge(seq)
        if (this.#missed || this.#intake.due) this.#takeIfDue()
      },
      (error: unknown) => {
        // The room rebuilds itself from the store and disposes of this.
        this.#disposed = true
        this.#port.log.warn(
          { error: String(error) },
          'kernel events could not be stored; they stay with the host',
        )
      },
    )
    // In a turn of its own, so that others get theirs.
    if (this.#full && this.#committing < MOST_COMMITTING) this.#intake.wakeAt(this.#port.clock.now() + 1)
  }

  /** Applies an item. `done: false`: only a part of its text was taken. */
  #apply(item: IntakeItem, draft: Draft, units: number): { units: number; done: boolean } {
    const { event } = item
    const all = { units: units - 64, done: true }
    switch (event.kind) {
      case 'ready':
      case 'connection':
        return all
      case 'gap': {
        this.#gap(event, draft)
        return all
      }
      case 'died':
        this.#finishSlice(draft)
        this.#port.died(event, draft)
        return all
      case 'settled': {
        this.#port.comms().settled(event.request_id)
        const live = this.#port.book.inMemory(event.request_id as ExecutionId)
        if (!live || isTerminal(live.row.status)) return all
        draft.touched.add(live)
        this.#start(live, draft, event.at, item.reply?.count ?? null)
        this.#port.settled(live, item.reply, event.at, draft)
        return all
      }
      case 'message':
        return this.#message(item, event.seq, event.at, draft, units)
    }
  }

  /** Said where it is: what came before stands before that place, whatever comes now behind it. */
  #gap({ reason, at }: Extract<HostEvent, { kind: 'gap' }>, { change, touched }: Draft): void {
    const running = this.#port.book.open.find((live) => live.sent)
    if (!running) {
      change.push({ type: 'kernel_gap', execution_id: null, reason })
      return
    }
    const gap = { ...running.recorder.place(change), reason, at }
    running.detail.gaps = [...(running.detail.gaps ?? []), gap].slice(-KEPT_GAPS)
    touched.add(running)
    change.push({ type: 'kernel_gap', execution_id: running.id, reason, gap })
  }

  #message(
    item: IntakeItem,
    seq: number,
    at: number,
    draft: Draft,
    units: number,
  ): { units: number; done: boolean } {
    const { told, parent } = item
    const all = { units: units - 64, done: true }
    const { change } = draft
    if (told.kind === 'other') return all
    const comms = this.#port.comms()
    switch (told.kind) {
      case 'update':
        this.#update(item.kernel, told.display, draft)
        return all
      case 'comm_open':
      case 'comm_msg':
      case 'comm_close':
        comms.told(told, parent, this.#executionOf(parent, draft), change)
        return { units: units - 64 - item.bytes, done: true }
      case 'display':
      case 'result':
        // Shown again under the same id, the earlier ones follow.
        // Also when a life of the daemon before this one showed it: then the store knows.
        if (told.display.displayId) this.#update(item.kernel, told.display, draft)
        break
      default:
        break
    }
    if (comms.capture(told, parent)) return all
    const live = this.#owner(parent, told.kind)
    if (!live) return all
    if (told.kind === 'status') {
      if (told.busy) live.busyAt ??= at
      return all
    }
    draft.touched.add(live)
    const { question } = live
    if (question)
      question.at = Math.min(this.#port.clock.now() + this.#port.limits.questionMs, question.latest)
    if (!live.terminal) this.#start(live, draft, at, told.kind === 'input' ? told.count : null)
    switch (told.kind) {
      case 'input':
        return all
      case 'stream':
        return this.#stream(live, told, seq, draft, units)
      case 'display':
      case 'result': {
        const { data, metadata, displayId } = told.display
        const shared = { data, metadata, ...(displayId ? { display_id: displayId } : {}) }
        live.recorder.output(
          change,
          told.kind === 'display'
            ? { output_type: 'display_data', ...shared }
            : { output_type: 'execute_result', ...shared, execution_count: told.count },
        )
        if (displayId) this.#displays.shown(displayId, live.id)
        return all
      }
      case 'error': {
        const { ename, evalue, traceback } = told
        live.recorder.output(change, { output_type: 'error', ename, evalue, traceback: [...traceback] })
        return all
      }
      case 'clear':
        live.recorder.clear(change, told.wait)
        return all
      case 'input_request': {
        if (live.terminal) return all
        const { msgId, prompt, password } = told
        const { clock, limits } = this.#port
        live.detail.input = { msg_id: msgId, prompt, password }
        live.row.status = 'running' // until the question is shown
        live.answering = false
        const now = clock.now()
        live.question = { at: now + limits.questionMs, latest: now + 10 * limits.questionMs }
        return all
      }
    }
  }

  /** The execution a message belongs to. What comes after its end (a thread that goes on printing) is still its output. */
  #owner(parent: string | null, kind: string): Live | undefined {
    if (parent === null) return undefined
    const live = this.#port.book.inMemory(parent as ExecutionId)
    if (live) return live.terminal && (kind === 'input' || kind === 'status') ? undefined : live
    const late = kind === 'stream' || kind === 'display' || kind === 'result' || kind === 'error'
    // What a callback prints belongs to the run that made its widget.
    return late ? this.#port.book.find(this.#port.comms().executionOf(parent) ?? parent) : undefined
  }

  /** The run that a comm is opened by, or by whose widget. */
  #executionOf(parent: string | null, draft: Draft): ExecutionId | null {
    if (parent === null) return null
    const { book } = this.#port
    const comms = this.#port.comms()
    const live = book.find(comms.executionOf(parent) ?? parent)
    if (!live) return null
    if (!draft.touched.has(live)) book.release(live)
    return live.id
  }

  #start(live: Live, { change }: Draft, at: number, count: number | null): void {
    if (count !== null) live.row.execution_count = count
    if (live.row.status !== 'queued') return
    live.row.status = 'running'
    live.row.started_at = live.busyAt ?? at
    change.push({ type: 'execution_started', execution: live.summary })
    this.#port.started(live)
  }

  #stream(
    live: Live,
    { name, text }: { name: string; text: string },
    seq: number,
    { change }: Draft,
    units: number,
  ): { units: number; done: boolean } {
    const { partial } = live.detail
    const from = partial?.seq === seq ? partial.units : 0
    const most = Math.max(units, 1)
    const part = text.slice(from, from + wholeUnits(text.slice(from, from + most + 1), most))
    live.recorder.text(change, name, part)
    const taken = from + part.length
    if (taken < text.length) {
      live.detail.partial = { seq, units: taken }
      return { units: 0, done: false }
    }
    delete live.detail.partial
    return { units: units - part.length - 64, done: true }
  }

  /** The newest content of a display id goes into every output that has it, also in earlier executions of this kernel. */
  #update(kernel: Kernel, display: Display, draft: Draft): void {
    const { displayId } = display
    if (displayId === undefined) return
    const { book } = this.#port
    const comms = this.#port.comms()
    comms.updateDisplay(display)
    const ids = this.#displays.executions(displayId, kernel.id)
    for (const id of ids) {
      const live = book.find(id)
      if (!live?.recorder.update(draft.change, display)) ids.delete(id)
      else draft.touched.add(live)
      if (live && !draft.touched.has(live)) book.release(live)
    }
  }
}

/** It has asked, and peers do not know yet. */
function asks(live: Live): boolean {
  return live.detail.input !== undefined && live.row.status === 'running'
}
