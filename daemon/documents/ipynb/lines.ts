/** Multi-line texts as the file format has them: lists of lines that keep their ends. */

/** Splits where Python's `str.splitlines(keepends=True)` does, as `nbformat` writes. '' gives no line. */
export function splitLines(text: string): string[] {
  return (
    text.match(
      /[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]*(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+/g,
    ) ?? []
  )
}

/** Joins a list of lines; a text stays as it is; null when it is neither. */
export function joinLines(value: unknown): string | null {
  if (typeof value === 'string') return value
  if (Array.isArray(value) && value.every((line) => typeof line === 'string')) return value.join('')
  return null
}
