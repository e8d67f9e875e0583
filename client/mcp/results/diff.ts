/** The change of one cell's source as a unified diff of one hunk: what differs, with two lines around it. */
const AROUND = 2
/** Lines of each side that are shown. */
const SHOWN = 80

/** '' when nothing differs. */
export function sourceDiff(before: string, after: string): string {
  if (before === after) return ''
  const old = before.split('\n')
  const now = after.split('\n')
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start++
  let end = 0
  while (
    end < old.length - start &&
    end < now.length - start &&
    old[old.length - 1 - end] === now[now.length - 1 - end]
  )
    end++
  const from = Math.max(0, start - AROUND)
  const lead = old.slice(from, start)
  const trail = old.slice(old.length - end, old.length - end + AROUND)
  const removed = old.slice(start, old.length - end)
  const added = now.slice(start, now.length - end)
  const range = (lines: number): string => `${from + 1},${lead.length + lines + trail.length}`
  return [
    `@@ -${range(removed.length)} +${range(added.length)} @@`,
    ...lead.map((line) => ` ${line}`),
    ...some(removed, '-'),
    ...some(added, '+'),
    ...trail.map((line) => ` ${line}`),
  ].join('\n')
}

function some(lines: readonly string[], sign: string): string[] {
  const shown = lines.slice(0, SHOWN).map((line) => `${sign}${line}`)
  return lines.length > SHOWN ? [...shown, `${sign}… ${lines.length - SHOWN} more lines`] : shown
}
