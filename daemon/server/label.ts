/**
 * Labels of peers are chosen by clients and shown to others, in terminals, editors and models. What could hide, reorder or
 * flood text is removed here, once, when the connection says HELLO.
 */

/** Longest label, in code points. */
export const MAX_LABEL = 80

/** Shown when nothing of a label is left. */
const NAMELESS = 'unnamed'

/** Line breaks, tabs and other separators: they separate words, so they become spaces. */
const separators = /[\p{Zs}\p{Zl}\p{Zp}\t\n\v\f\r\u0085]+/gu
/** Control, format (zero-width, bidi), default-ignorable (fillers, variation selectors) and lone surrogates. */
const invisible = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Cs}\u2800]+/gu
/** More than three combining marks on one character paint over their neighbours. */
const stacked = /(\p{M}{3})\p{M}+/gu

/** A label that is safe to show: at most 80 visible code points on one line; empty when nothing is left. */
function clean(raw: string): string {
  const visible = raw
    .normalize('NFC')
    .replace(separators, ' ')
    .replace(invisible, '')
    .replace(stacked, '$1')
    .replace(/ {2,}/g, ' ')
    .trim()
  const points = [...visible]
  return points.length <= MAX_LABEL ? visible : points.slice(0, MAX_LABEL).join('').trimEnd()
}

/** The label others see: the first of `candidates` that has something visible, cleaned; else "unnamed". */
export function cleanLabel(...candidates: readonly string[]): string {
  for (const candidate of candidates) {
    const label = clean(candidate)
    if (label !== '') return label
  }
  return NAMELESS
}
