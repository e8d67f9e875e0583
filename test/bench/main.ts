/**
 * `npm run bench [-- NAME… --json]`: each bench against its reference in the same run, one line a figure. Exit 0 also when a
 * target is missed: machines are shared, and a figure is for people to judge; 1 when a bench could not run.
 */
import { benchDaemon } from './daemon.ts'
import { benchEdits } from './edits.ts'
import { benchExec } from './exec.ts'
import { type Figure, line } from './figure.ts'
import { benchFlood } from './flood.ts'
import { benchLedger } from './ledger.ts'
import { benchMcp } from './mcp.ts'
import { benchOpen } from './open.ts'
import { benchRejoin } from './rejoin.ts'
import { benchRtt } from './rtt.ts'
import { benchStart } from './start.ts'

const benches: Record<string, () => AsyncGenerator<Figure>> = {
  rtt: benchRtt,
  exec: benchExec,
  start: benchStart,
  edits: benchEdits,
  open: benchOpen,
  daemon: benchDaemon,
  flood: benchFlood,
  rejoin: benchRejoin,
  mcp: benchMcp,
  ledger: benchLedger,
}

const names = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const json = process.argv.includes('--json')
const unknown = names.filter((name) => !(name in benches))
if (unknown.length > 0) {
  console.error(`no bench ${unknown.join(', ')}; there are: ${Object.keys(benches).join(', ')}`)
  process.exit(2)
}

const figures: Figure[] = []
for (const name of names.length > 0 ? names : Object.keys(benches)) {
  const bench = benches[name]
  if (!bench) continue
  try {
    for await (const figure of bench()) {
      figures.push(figure)
      if (!json) console.log(line(figure))
    }
  } catch (error) {
    console.error(
      `${name} could not run: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    )
    process.exitCode = 1
  }
}
if (json) console.log(JSON.stringify(figures, null, 2))
