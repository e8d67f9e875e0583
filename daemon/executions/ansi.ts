/**
 * Escape sequences of terminal output: finding them, and what SGR and hyperlink sequences leave switched on. Pure.
 *
 * An `Attributes` value is the text of the sequences in force, oldest first; empty: nothing is switched on. It stays short: a
 * sequence whose every effect a later one replaced is left out.
 */
export type Attributes = string

/** Longest sequence waited for when a piece of text ends inside it; anything longer is ordinary text. */
export const LONGEST = 4096

const csi = /\x1b\[([0-?]{0,256})[ -/]{0,16}([@-~])/y
const osc = new RegExp(`\\x1b\\]([^\\x07\\x1b]{0,${LONGEST}})(?:\\x07|\\x1b\\\\)`, 'y')
const controlString = new RegExp(`\\x1b[PX^_][^\\x07\\x1b]{0,${LONGEST}}(?:\\x07|\\x1b\\\\)`, 'y')
const twoBytes = /\x1b(?:[ -/]{1,4}[0-~]|[0-OQ-WYZ\\`-~])/y
const unfinished = new RegExp(
  `\\x1b(?:[ -/]{0,4}|\\[[0-?]{0,256}[ -/]{0,16}|[\\]PX^_][^\\x07\\x1b]{0,${LONGEST}}\\x1b?)$`,
  'y',
)

export type Sequence =
  | { readonly kind: 'csi'; readonly end: number; readonly parameters: string; readonly final: string }
  | { readonly kind: 'link'; readonly end: number; readonly open: boolean }
  | { readonly kind: 'other'; readonly end: number }
  /** The text ends inside a sequence. */
  | { readonly kind: 'unfinished' }
  /** Not a sequence: the escape character is ordinary text. */
  | { readonly kind: 'none' }

/** The sequence that begins at `at`, where an escape character is. `end` is the offset behind it. */
export function sequenceAt(text: string, at: number): Sequence {
  const found = match(csi, text, at)
  if (found) return { kind: 'csi', end: csi.lastIndex, parameters: found[1] ?? '', final: found[2] ?? '' }
  const command = match(osc, text, at)
  if (command) {
    const link = /^8;[^;]*;(.*)$/s.exec(command[1] ?? '')
    return link
      ? { kind: 'link', end: osc.lastIndex, open: link[1] !== '' }
      : { kind: 'other', end: osc.lastIndex }
  }
  if (match(controlString, text, at)) return { kind: 'other', end: controlString.lastIndex }
  if (match(twoBytes, text, at)) return { kind: 'other', end: twoBytes.lastIndex }
  return match(unfinished, text, at) ? { kind: 'unfinished' } : { kind: 'none' }
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}

const RESET = '\x1b[0m'
const CLOSE_LINK = '\x1b]8;;\x1b\\'

/** Programs use few combinations, again and again: answers of `afterSgr` by what was asked. */
const known = new Map<string, Attributes>()
const MOST_KNOWN = 2000

/** Attributes after the SGR sequence `raw` with these parameters. */
export function afterSgr(before: Attributes, raw: string, parameters: string): Attributes {
  const question = before + raw
  const answer = known.get(question)
  if (answer !== undefined) return answer
  const after = computeAfterSgr(before, raw, parameters)
  if (known.size >= MOST_KNOWN) known.clear()
  known.set(question, after)
  return after
}

function computeAfterSgr(before: Attributes, raw: string, parameters: string): Attributes {
  const effects = sgrEffects(parameters)
  const entries = split(before)
  // What follows the last reset inside one sequence ("0;31") is all that counts of it.
  const kept = effects.resets ? entries.filter((entry) => entry.startsWith('\x1b]')) : entries
  if (effects.sets.size === 0) return kept.join('')
  return compact([...kept, raw])
}

/** Attributes after a hyperlink sequence. SGR resets do not end a link. */
export function afterLink(before: Attributes, raw: string, open: boolean): Attributes {
  const kept = split(before).filter((entry) => !entry.startsWith('\x1b]'))
  return (open ? [...kept, raw] : kept).join('')
}

/** Text that makes a reader whose attributes are `from` have `to`. */
export function transition(from: Attributes, to: Attributes): string {
  if (from === to) return ''
  if (to.startsWith(from)) return to.slice(from.length)
  return (from.includes('\x1b]') ? CLOSE_LINK : '') + RESET + to
}

function split(attributes: Attributes): string[] {
  if (attributes === '') return []
  const entries: string[] = []
  for (let at = 0; at < attributes.length; ) {
    const sequence = sequenceAt(attributes, at)
    if (sequence.kind === 'unfinished' || sequence.kind === 'none') break
    entries.push(attributes.slice(at, sequence.end))
    at = sequence.end
  }
  return entries
}

/** Leaves out entries whose effects later ones replace, and "off" codes with nothing left to switch off. */
function compact(entries: readonly string[]): Attributes {
  const later = new Set<string>()
  const kept: string[] = []
  for (const entry of [...entries].reverse()) {
    if (entry.startsWith('\x1b]')) {
      kept.unshift(entry)
      continue
    }
    const { sets } = sgrEffects(entry.slice(2, -1))
    if ([...sets].every((effect) => later.has(effect))) continue
    for (const effect of sets) later.add(effect)
    kept.unshift(entry)
  }
  while (kept[0] !== undefined && !kept[0].startsWith('\x1b]') && onlyOff(kept[0])) kept.shift()
  return kept.join('')
}

const offCodes = new Map([
  [22, 'weight'],
  [23, 'italic'],
  [24, 'underline'],
  [25, 'blink'],
  [27, 'inverse'],
  [28, 'hidden'],
  [29, 'struck'],
  [39, 'foreground'],
  [49, 'background'],
])
const onCodes = new Map([
  [1, 'weight'],
  [2, 'weight'],
  [3, 'italic'],
  [4, 'underline'],
  [5, 'blink'],
  [6, 'blink'],
  [7, 'inverse'],
  [8, 'hidden'],
  [9, 'struck'],
  [21, 'underline'],
])

function onlyOff(entry: string): boolean {
  return entry
    .slice(2, -1)
    .split(/[;:]/)
    .every((code) => offCodes.has(Number(code || 0)))
}

/** Which kinds of attribute a sequence's codes set or switch off, counted from its last reset on. */
function sgrEffects(parameters: string): { resets: boolean; sets: Set<string> } {
  const codes = parameters.split(/[;:]/).map((code) => Number(code || 0))
  let sets = new Set<string>()
  let resets = false
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0
    if (code === 0) {
      resets = true
      sets = new Set()
    } else if (code === 38 || code === 48) {
      sets.add(code === 38 ? 'foreground' : 'background')
      i += codes[i + 1] === 5 ? 2 : codes[i + 1] === 2 ? 4 : 0
    } else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) sets.add('foreground')
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) sets.add('background')
    else sets.add(onCodes.get(code) ?? offCodes.get(code) ?? `code ${code}`)
  }
  return { resets, sets }
}
