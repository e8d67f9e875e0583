/** The one place in a cell's source that a replacement means, or an error that helps to name it. */
import { RoomdError } from '../../../protocol/errors.ts'
import type { Match } from './regex.ts'

export interface Wanted {
  readonly match: string
  readonly context_before?: string | undefined
  readonly context_after?: string | undefined
}

/** Every place of the text, overlapping ones too, that has the context around it. White space between text and context is allowed. */
export function findText(source: string, { match, context_before, context_after }: Wanted): Match[] {
  const found: Match[] = []
  for (let at = source.indexOf(match); at >= 0; at = source.indexOf(match, at + 1)) {
    const before = source.slice(0, at)
    const after = source.slice(at + match.length)
    if (context_before !== undefined && !ends(before, context_before)) continue
    if (context_after !== undefined && !starts(after, context_after)) continue
    found.push({ index: at, length: match.length })
  }
  return found
}

function ends(text: string, context: string): boolean {
  return text.endsWith(context) || text.trimEnd().endsWith(context.trimEnd())
}

function starts(text: string, context: string): boolean {
  return text.startsWith(context) || text.trimStart().startsWith(context.trimStart())
}

/** Exactly one, or an error: none (`not_found`), several (`invalid_argument`, with where they are). */
export function onlyMatch(
  cellId: string,
  source: string,
  found: readonly Match[],
  what: { kind: 'text'; wanted: Wanted } | { kind: 'pattern' },
): Match {
  const [match] = found
  if (match && found.length === 1) return match
  const next = { tool: 'get_cell', arguments: { cell_id: cellId } }
  if (!match) {
    const hint = what.kind === 'text' ? nearMiss(source, what.wanted) : ''
    throw new RoomdError(
      'not_found',
      `the ${what.kind} does not occur in cell ${cellId}${hint}; nothing was changed`,
      { next },
    )
  }
  const places = found.map(({ index }) => placeOf(source, index))
  const lines = places.map(({ line, text }) => `line ${line}: ${text}`).join('; ')
  const how =
    what.kind === 'text'
      ? 'context_before or context_after tell which one is meant'
      : 'make the pattern fit one of them only'
  throw new RoomdError(
    'invalid_argument',
    `the ${what.kind} occurs ${found.length} times in cell ${cellId} (${lines}); nothing was changed: ${how}`,
    { cause: { matches: places.map(({ offset, line }) => ({ offset, line })) }, next },
  )
}

function placeOf(source: string, offset: number): { offset: number; line: number; text: string } {
  const line = source.slice(0, offset).split('\n').length
  const text = (source.split('\n')[line - 1] ?? '').trim()
  return { offset, line, text: text.length > 60 ? `${text.slice(0, 60)}…` : text }
}

function nearMiss(source: string, { match, context_before, context_after }: Wanted): string {
  if (source.includes(match)) {
    const missing = [
      ...(context_before === undefined ? [] : ['context_before']),
      ...(context_after === undefined ? [] : ['context_after']),
    ].join(' and ')
    return ` with that ${missing} around it (without, it occurs)`
  }
  const squeezed = match.replace(/\s+/g, ' ').trim()
  const line = source.split('\n').findIndex((text) => text.replace(/\s+/g, ' ').includes(squeezed))
  if (squeezed !== '' && line >= 0) return ` (with other white space it does, in line ${line + 1})`
  const lower = source.toLowerCase().indexOf(match.toLowerCase())
  if (lower >= 0) return ` (in other letter case it does, in line ${placeOf(source, lower).line})`
  return ''
}

export function replaced(source: string, { index, length }: Match, content: string): string {
  return source.slice(0, index) + content + source.slice(index + length)
}
