/** The globals `display()` and `clearOutput()`. */
import { randomUUID } from 'node:crypto'
import { displaySymbol, looksLikeBundle, type MimeBundle, rawBundle, toMimeBundle } from './mime-bundle.ts'
import type { Outlet } from './outlet.ts'

export interface DisplayOptions {
  /** The value is a mime bundle, whatever it looks like. */
  readonly raw?: boolean
  /** Names the display, so that it can be updated; `true` makes a name. */
  readonly display_id?: string | true
  /** Changes the display of that id instead of adding one. */
  readonly update?: boolean
  readonly metadata?: Record<string, unknown>
}

/** A named display. */
export class DisplayHandle {
  readonly display_id: string
  readonly #show: (value: unknown, options: DisplayOptions) => void

  constructor(id: string, show: (value: unknown, options: DisplayOptions) => void) {
    this.display_id = id
    this.#show = show
  }

  /** Shows another value in the place of the first. */
  update(value: unknown, options: DisplayOptions = {}): void {
    this.#show(value, { ...options, display_id: this.display_id, update: true })
  }
}

export function createDisplay(outlet: Outlet) {
  const show = (value: unknown, options: DisplayOptions): void => {
    const { data, metadata } = bundleOf(value, options)
    const transient = typeof options.display_id === 'string' ? { display_id: options.display_id } : {}
    outlet.iopub(options.update ? 'update_display_data' : 'display_data', { data, metadata, transient })
  }

  /**
   * Shows a value, or a mime bundle (an object whose keys are mime types). With `display_id` returns a handle to update it.
   * Throws TypeError for an update without an id.
   */
  function display(value: unknown, options: DisplayOptions = {}): DisplayHandle | undefined {
    if (options.update && typeof options.display_id !== 'string') {
      throw new TypeError('display(): update needs the display_id of what to change')
    }
    const id = options.display_id === true ? randomUUID() : options.display_id
    show(value, id === undefined ? options : { ...options, display_id: id })
    return id === undefined ? undefined : new DisplayHandle(id, show)
  }

  const shortcut =
    (type: string) =>
    (value: unknown, options: DisplayOptions = {}): DisplayHandle | undefined =>
      display({ [type]: value }, { ...options, raw: true })

  return Object.assign(display, {
    html: shortcut('text/html'),
    markdown: shortcut('text/markdown'),
    latex: shortcut('text/latex'),
    svg: shortcut('image/svg+xml'),
    png: shortcut('image/png'),
    jpeg: shortcut('image/jpeg'),
    json: shortcut('application/json'),
    /** The symbol of the method by which a value says how it is shown. */
    symbol: displaySymbol,
  })
}

/** Removes the outputs of the cell; with `wait` only when the next one comes. */
export function createClearOutput(outlet: Outlet) {
  return function clearOutput({ wait = false }: { wait?: boolean } = {}): void {
    outlet.iopub('clear_output', { wait })
  }
}

function bundleOf(value: unknown, options: DisplayOptions): MimeBundle {
  const given = options.raw || looksLikeBundle(value)
  if (given && (typeof value !== 'object' || value === null)) {
    throw new TypeError('display(): a raw value is an object of mime types')
  }
  const bundle = given ? rawBundle(value as Record<string, unknown>) : toMimeBundle(value)
  return { data: bundle.data, metadata: { ...bundle.metadata, ...options.metadata } }
}
