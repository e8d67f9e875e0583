/** Commands that somebody copies into a shell. */

/** The text as one word of a command, quoted where a shell would read it otherwise. */
export function shellWord(text: string): string {
  return /^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
