/**
 * Where a command writes to, and what the other end can show. Colours and control sequences go only to a terminal, and only
 * when NO_COLOR is unset; results go to stdout, everything about the work itself (progress, notes, errors) to stderr.
 */
import { inspect } from 'node:util'

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

export interface Terminal {
  /** `--json`: one JSON value on stdout, nothing else there. */
  readonly json: boolean
  /** stdout is a terminal. */
  readonly interactive: boolean
  /** stderr is a terminal: a progress line may be drawn on it. */
  readonly progress: boolean
  /** Columns of the terminal; Infinity where it is none. */
  readonly columns: number
  /** Writes text to stdout as it is. */
  write(text: string): void
  /** Writes a line to stdout. */
  line(text?: string): void
  /** Writes a line to stderr. */
  note(text: string): void
  /** Writes to stderr as it is: the progress line. */
  draw(text: string): void
  /** Writes a value as JSON to stdout. */
  result(value: unknown): void
  /** Colours for stdout, or the text as it is. */
  paint(style: Style, text: string): string
  /** Colours for stderr, or the text as it is. */
  paintNote(style: Style, text: string): string
}

export interface Streams {
  readonly stdout: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  readonly stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  readonly env: Readonly<Record<string, string | undefined>>
}

export function openTerminal(json: boolean, streams: Streams = process): Terminal {
  const { stdout, stderr, env } = streams
  const colours = !env.NO_COLOR && env.TERM !== 'dumb'
  const interactive = stdout.isTTY === true
  const progress = stderr.isTTY === true && env.TERM !== 'dumb'
  const painter = (allowed: boolean) => (style: Style, text: string) =>
    allowed && colours ? coloured(style, text) : text
  return {
    json,
    interactive,
    progress,
    get columns() {
      return stdout.columns ?? Number.POSITIVE_INFINITY
    },
    write: (text) => {
      stdout.write(text)
    },
    line: (text = '') => {
      stdout.write(`${text}\n`)
    },
    note: (text) => {
      stderr.write(`${text}\n`)
    },
    draw: (text) => {
      stderr.write(text)
    },
    result: (value) => {
      stdout.write(`${JSON.stringify(value, null, interactive ? 2 : 0)}\n`)
    },
    paint: painter(interactive),
    paintNote: painter(stderr.isTTY === true),
  }
}

/** Node's own `styleText` asks process.stdout again; here it is decided already. */
function coloured(style: Style, text: string): string {
  const [begin, end] = inspect.colors[style] ?? [0, 0]
  return `\x1b[${begin}m${text}\x1b[${end}m`
}
