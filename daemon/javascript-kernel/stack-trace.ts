/**
 * Stack traces in terms of cells: places are mapped back to the source, the kernel's own frames are left out. Installed as the
 * realm's `Error.prepareStackTrace`, so that `error.stack` is right wherever it is read.
 */
import { type CellPlace, cellPlace, isCell } from './cells.ts'
import { KeyboardInterrupt } from './scope.ts'

const places = new WeakMap<object, CellPlace>()
const ownFolder = new URL('.', import.meta.url).href

export function installStackTraces(): void {
  Error.prepareStackTrace = (error, frames) => {
    const lines: string[] = []
    let end = 0
    for (const frame of frames) {
      const text = String(frame)
      if (text.includes(ownFolder) || text.includes('kernel-guard')) continue
      const file = frame.getFileName() ?? ''
      if (!isCell(file)) {
        lines.push(`    at ${text}`)
        // What Node does to get into a cell says nothing; what it does on behalf of a cell is above that cell's frame.
        if (!/\(?node:/.test(text)) end = lines.length
        continue
      }
      const [line, column] = [frame.getLineNumber() ?? 0, frame.getColumnNumber() ?? 0]
      const place = cellPlace(file, line, column)
      if (!place) continue
      lines.push(`    at ${text.replace(`${file}:${line}:${column}`, () => spot(place))}`)
      end = lines.length
      if (!places.has(error)) places.set(error, place)
    }
    if (end > 0) lines.length = end
    return [headline(error), ...lines].join('\n')
  }
}

/** The innermost place in a cell of an error, once its stack was read. */
export function placeOf(error: object): CellPlace | undefined {
  return places.get(error)
}

function spot({ name, line, column }: CellPlace): string {
  return `${name}:${line}:${column}`
}

function headline(error: unknown): string {
  try {
    return error instanceof KeyboardInterrupt ? `${error.name}: ${error.message}` : String(error)
  } catch {
    return '<error that cannot be shown as text>'
  }
}
