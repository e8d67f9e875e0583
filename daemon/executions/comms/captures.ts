/**
 * Which Output widgets capture what: the widget whose `msg_id` names a message takes the outputs that come in answer to it. Of several
 * the one that asked last does, as nested `with output:` blocks need it.
 */
import type { CommId } from '../../../protocol/comms.ts'
import type { Display, Told } from '../messages.ts'
import { CapturedOutputs } from './captured-outputs.ts'
import type { OpenComm } from './comm.ts'

interface Capture {
  readonly outputs: CapturedOutputs
  msgId: string
  /** Not in the comm's state yet. */
  changed: boolean
  /** The kernel's own widget does not have it yet. */
  untold: boolean
}

export class Captures {
  readonly #widgets = new Map<CommId, Capture>()
  /** Message → widgets that take its outputs, the last one first in line. */
  readonly #hooks = new Map<string, CommId[]>()
  /** The change of `outputs` that is being made is our own. */
  #writing = false

  /** What the comm's state says now; `name`: the value that changed. */
  look(comm: OpenComm, name?: string): void {
    const known = this.#widgets.get(comm.id)
    if (!known && !isOutputWidget(comm)) return
    // The kernel (or a peer) set the outputs itself: they are what capturing goes on from. Our own come this way too.
    const fresh = name === 'outputs' && known !== undefined && !known.changed && !this.#writing
    const widget: Capture =
      known && !fresh
        ? known
        : {
            outputs: new CapturedOutputs(comm.value('outputs')),
            msgId: known?.msgId ?? '',
            changed: false,
            untold: false,
          }
    this.#widgets.set(comm.id, widget)
    const value = comm.value('msg_id')
    const msgId = typeof value === 'string' ? value : ''
    // From before this process: it may have been captured and not told.
    if (name === undefined && msgId !== '') widget.untold = widget.outputs.outputs.length > 0
    if (msgId === widget.msgId) return
    this.#unhook(comm.id, widget.msgId)
    widget.msgId = msgId
    if (msgId !== '') this.#hooks.set(msgId, [...(this.#hooks.get(msgId) ?? []), comm.id])
  }

  /** false: it is nobody's. */
  take(told: Told, parent: string | null): boolean {
    const id = parent === null ? undefined : this.#hooks.get(parent)?.at(-1)
    const widget = id === undefined ? undefined : this.#widgets.get(id)
    if (!widget) return false
    switch (told.kind) {
      case 'stream':
      case 'display':
      case 'result':
      case 'error':
      case 'clear':
        if (widget.outputs.take(told)) this.#mark(widget)
        return true
      default:
        return false
    }
  }

  update(display: Display): void {
    for (const widget of this.#widgets.values()) if (widget.outputs.update(display)) this.#mark(widget)
  }

  outputs(id: CommId): Record<string, unknown>[] {
    return this.#widgets.get(id)?.outputs.outputs ?? []
  }

  /** Widgets whose outputs are not in their state; they are about to be. */
  *changed(): Generator<CommId> {
    for (const [id, widget] of this.#widgets) {
      if (!widget.changed) continue
      this.#writing = true
      yield id
      this.#writing = false
      widget.changed = false
    }
  }

  /** Widgets of which the kernel is about to be told: nothing captures into them now. */
  untold(): CommId[] {
    const ids: CommId[] = []
    for (const [id, widget] of this.#widgets) {
      if (!widget.untold || widget.msgId !== '') continue
      widget.untold = false
      ids.push(id)
    }
    return ids
  }

  forget(id: CommId): void {
    const widget = this.#widgets.get(id)
    if (!widget) return
    this.#widgets.delete(id)
    this.#unhook(id, widget.msgId)
  }

  clear(): void {
    this.#widgets.clear()
    this.#hooks.clear()
  }

  #mark(widget: Capture): void {
    widget.changed = true
    widget.untold = true
  }

  #unhook(id: CommId, msgId: string): void {
    const left = this.#hooks.get(msgId)?.filter((other) => other !== id) ?? []
    if (left.length > 0) this.#hooks.set(msgId, left)
    else this.#hooks.delete(msgId)
  }
}

function isOutputWidget(comm: OpenComm): boolean {
  return (
    comm.value('_model_module') === '@jupyter-widgets/output' && comm.value('_model_name') === 'OutputModel'
  )
}
