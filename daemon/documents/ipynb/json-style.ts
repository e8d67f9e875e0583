/** How a file spells its JSON, found from its text, and writing new values in that spelling. */

export interface JsonStyle {
  /** One level of indentation; null: everything on one line. */
  readonly indent: string | null
  readonly newline: '\n' | '\r\n'
  /** Between key and value, with its spaces. */
  readonly colon: string
  /** Between items on one line, with its spaces. */
  readonly comma: string
  /** Keys are in alphabetical order. */
  readonly sorted: boolean
  /** Characters beyond ASCII are escaped. */
  readonly ascii: boolean
  /** `<`, `>` and `&` are escaped, as some writers do for the web. */
  readonly html: boolean
}

/** As Jupyter writes: one space, sorted keys, everything but control characters as it is. */
export const jupyterStyle: JsonStyle = {
  indent: ' ',
  newline: '\n',
  colon: ': ',
  comma: ', ',
  sorted: true,
  ascii: false,
  html: false,
}

/** `rootKeys`: keys of the outermost object in their order. */
export function styleOf(text: string, rootKeys: readonly string[]): JsonStyle {
  const newline = /\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n'
  const indent = /^\uFEFF?\s*\{\s*?\n([ \t]*)"/.exec(text)?.[1] ?? null
  const colon = /"[^"\\]*"(\s*:[ \t]*)/.exec(text)?.[1] ?? ': '
  const comma = /[\]}"\d](,[ \t]+)["{[\d]/.test(text) || indent !== null ? ', ' : ','
  return {
    indent,
    newline,
    colon,
    comma,
    sorted: isSorted(rootKeys),
    ascii: /\\u(?!00[0-7])[0-9a-fA-F]{4}/.test(text) && !/[\u0080-\uffff]/.test(text.replace(/^\uFEFF/, '')),
    html: /\\u003c/i.test(text) && !text.includes('<'),
  }
}

export function isSorted(keys: readonly string[]): boolean {
  return keys.every((key, index) => index === 0 || (keys[index - 1] ?? '') <= key)
}

/** Writes a value that begins on a line indented by `margin`. `inline`: on one line although the file is indented. */
export function writeJson(value: unknown, style: JsonStyle, margin: string, inline = false): string {
  if (Array.isArray(value)) {
    return wrap(
      '[',
      ']',
      value.map((item) => writeJson(item, style, deeper(margin, style), inline)),
      style,
      margin,
      inline,
    )
  }
  if (typeof value === 'object' && value !== null) {
    const keys = Object.keys(value).filter((key) => (value as Record<string, unknown>)[key] !== undefined)
    if (style.sorted) keys.sort()
    const members = keys.map(
      (key) =>
        writeString(key, style) +
        style.colon +
        writeJson((value as Record<string, unknown>)[key], style, deeper(margin, style), inline),
    )
    return wrap('{', '}', members, style, margin, inline)
  }
  return writeScalar(value, style)
}

export function wrap(
  open: string,
  close: string,
  items: readonly string[],
  style: JsonStyle,
  margin: string,
  inline = false,
): string {
  if (items.length === 0) return open + close
  if (style.indent === null || inline) return open + items.join(style.comma) + close
  const inner = style.newline + deeper(margin, style)
  return open + inner + items.join(`,${inner}`) + style.newline + margin + close
}

export function deeper(margin: string, style: JsonStyle): string {
  return margin + (style.indent ?? '')
}

export function writeScalar(value: unknown, style: JsonStyle): string {
  switch (typeof value) {
    case 'string':
      return writeString(value, style)
    case 'number':
      // NaN, Infinity and -Infinity spell themselves, as Python writes them.
      return Object.is(value, -0) ? '-0' : String(value)
    case 'bigint':
    case 'boolean':
      return String(value)
    default:
      return 'null'
  }
}

export function writeString(value: string, style: JsonStyle): string {
  let text = JSON.stringify(value)
  if (style.ascii) text = text.replace(/[\u0080-\uffff]/g, escapeUnit)
  if (style.html) text = text.replace(/[<>&]/g, escapeUnit)
  return text
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
