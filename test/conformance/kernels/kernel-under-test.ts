/**
 * What the behaviour suite has to know of a kernel: where it is found, how its language says what the suite wants to be said, and
 * what it cannot do. A lack is written down with its reason and with a cell that shows it, and the suite runs that cell: a kernel that
 * learns it later fails its own entry, so that no lack outlives its reason.
 */
import type { MachinePart } from '../../support/machine.ts'

export interface KernelUnderTest {
  /** In the titles of the tests. */
  readonly title: string
  /** Name of the kernelspec, as rooms ask for it. */
  readonly spec: string
  readonly needs: readonly MachinePart[]
  readonly language: Language
  /**
   * What must run beside the daemon (a gateway's server), started in the home before it. Returns variables for the daemon's
   * environment, and how to end what was started.
   */
  readonly surroundings?: (homePath: string) => Promise<Surroundings>
  /** The kernel's process is on this machine, so that it can be killed and its signal be told. */
  readonly local: boolean
}

export interface Surroundings {
  readonly variables: Record<string, string>
  dispose(): Promise<void>
}

/** What a kernel or its language cannot do. `proof` is a cell that prints `yes` as long as it is so. */
export interface Lack {
  readonly lacks: string
  readonly proof: string
}

export type Offered<T> = T | Lack

export function lacking<T>(offered: Offered<T>): offered is Lack {
  return typeof offered === 'object' && offered !== null && 'lacks' in offered
}

/** Cells in one language. Each is complete in itself unless it says otherwise; names it leaves behind begin with `suite_`. */
export interface Language {
  /** `name` of kernel_info's language_info, as the room tells it. */
  readonly name: string
  /** A cell whose result is shown as `text/plain` matching. */
  readonly value: { readonly code: string; readonly shows: RegExp }
  /** Prints one line. */
  print(text: string): string
  /** Stores a whole number under a name. */
  assign(name: string, value: number): string
  /** Prints the number and a line end; fails when there is none. */
  tell(name: string): string
  /** `one` and `three` to stdout, `two` to stderr between them, each a line and each sent off before the next. */
  readonly mixed: string
  readonly fail: { readonly code: string; readonly ename: RegExp; readonly evalue: RegExp }
  /** Prints `begun`, then computes for ever. */
  readonly compute: string
  /** Prints `begun`, then sleeps for ten minutes. */
  readonly sleep: string
  /** Asks with the prompt and prints `got <answer>`. */
  ask(prompt: string): string
  /** The same for a secret. */
  askSecret(prompt: string): Offered<string>
  /** Name of the error that input raises where nobody can be asked; a lack where the kernel asks regardless. */
  readonly refusedInput: Offered<RegExp>
  /** Shows the text under a display id; changes what is shown under it. Text as `text/plain`. */
  readonly displays: Offered<{
    show(id: string, text: string): string
    update(id: string, text: string): string
  }>
  /** Prints `first`, clears, and, when told so, prints `second`. */
  readonly clears: Offered<(wait: boolean, second: boolean) => string>
  /** Shows `<b>bold</b>` as `text/html`. */
  readonly html: string
  /** Prints `lines` lines, the i-th (from 0) being the number, a blank and `width` times `x`, as fast as it can. */
  flood(lines: number, width: number): string
  /** Fewer lines for the flood where the language is slow at printing. */
  readonly floodLines?: number
  /** Prints numbered lines `0` to `lines - 1`, one each few milliseconds, each sent off at once. */
  slowLines(lines: number): string
  /** Prints `before`, asks for input, then ends the kernel's process by this signal; `stderr` is among the last it says. */
  readonly crash: { readonly code: string; readonly signal: RegExp; readonly stderr: RegExp }
  /** `before` is run, then what stands before the cursor (the end of `code`) is completed to `match`. */
  readonly complete: Offered<{ readonly before: string; readonly code: string; readonly match: string }>
  readonly inspect: Offered<{ readonly before: string; readonly code: string; readonly shows: RegExp }>
}
