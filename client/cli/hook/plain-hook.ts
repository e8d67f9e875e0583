/** The short way into `roomd session hook`: anything but one event takes the usual way. */

/** null: the command line says something else; empty: the input says which event it is. */
export function plainHook(argv: readonly string[]): string | null {
  const [command, sub, event, ...rest] = argv
  if (command !== 'session' || sub !== 'hook' || rest.length > 0) return null
  return event?.startsWith('-') ? null : (event ?? '')
}
