/**
 * The demo (`npm run demo`): a real notebook, then a daemon that is killed in the middle of a running cell, and a count of what is left. Runs
 * in a temporary home with nothing but Node, ends all it started, and fails (exit 1) unless everything survived.
 *
 * It reaches roomd from outside, as any program would: the `roomd` command and the SDK.
 */
import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Client, connect, type Output, type Room } from '../client/sdk/index.ts'
import { programFile } from '../protocol/programs.ts'

const LINES = 40
/** The daemon is killed when this line has been seen. */
const KILL_AT = 12

const home = realpathSync(mkdtempSync(join(tmpdir(), 'roomd-demo-')))
// This process, the command and the daemon it starts: all in the temporary home.
process.env.ROOMD_HOME = home
delete process.env.ROOMD_SOCKET
delete process.env.ROOMD_NO_AUTOSTART

const failures: string[] = []
try {
  await demo()
} catch (error) {
  failures.push(error instanceof Error ? error.message : String(error))
} finally {
  await cleanUp()
}
for (const failure of failures) console.error(`demo failed: ${failure}`)
process.exit(failures.length === 0 ? 0 : 1)

async function demo(): Promise<void> {
  const work = join(home, 'work')
  mkdirSync(work)
  const notebook = join(work, 'tour.ipynb')
  copyFileSync(join(projectFolder(), 'examples', 'tour.ipynb'), notebook)

  title('A daemon in a temporary home')
  console.log((await roomd('start')).trim())
  const client = await connect({ label: 'the demo', name: 'roomd-demo', kind: 'cli' })
  await tellKernels(client)

  title('A notebook')
  const room = await client.openRoom({ path: notebook })
  await runNotebook(room)

  title('The daemon is killed in the middle of a cell')
  const before = await variables(room)
  const kernelBefore = room.state.kernel?.pid ?? null
  const lines = await killDuringCell(client, room)
  const after = await variables(room)
  const kernelAfter = room.state.kernel?.pid ?? null

  const saved = await room.save()
  console.log(`saved ${saved.path.replace(`${home}/`, '')} with its outputs`)
  await client.close()

  title('What is left')
  console.log(`daemon killed (SIGKILL): pid ${lines.killed}; started again: pid ${lines.successor}`)
  console.log(`kernel pid before: ${kernelBefore}, after: ${kernelAfter}`)
  if (kernelBefore === null || kernelBefore !== kernelAfter)
    failures.push('the kernel is not the same process')
  for (const [name, value] of Object.entries({ ...before, printed: String(LINES) })) {
    if (after[name] === value) console.log(`variable survived: ${name} = ${value}`)
    else failures.push(`variable ${name} was ${value} and is ${after[name]}`)
  }
  tellLines(lines.kept, lines.seen)
}

async function tellKernels(client: Client): Promise<void> {
  const { specs } = await client.call('list_kernels', {})
  const others = specs.filter((spec) => spec.source !== 'embedded')
  console.log('kernel that comes with roomd: javascript')
  if (others.length === 0) console.log('no Jupyter kernels found beside it')
  else {
    const names = others.map(
      (spec) => `${spec.name} (${spec.language}${spec.usable ? '' : ', does not start'})`,
    )
    console.log(`Jupyter kernels also found: ${names.join(', ')}`)
  }
}

async function runNotebook(room: Room): Promise<void> {
  for (const run of await room.runAll()) {
    const cell = room.state.cell(run.execution.cell_id ?? '')
    const first = cell?.source.split('\n')[0] ?? ''
    console.log(`\n> ${first}`)
    for await (const output of run.outputs()) show(output)
    const { status } = await run.done
    if (status !== 'done') throw new Error(`the cell "${first}" ended as ${status}`)
  }
}

interface Counted {
  readonly killed: number
  readonly successor: number
  /** The execution's output as the daemon keeps it. */
  readonly kept: string
  /** All that this client was given while it happened, across the kill. */
  readonly seen: string
}

async function killDuringCell(client: Client, room: Room): Promise<Counted> {
  const cell = await room.createCell({
    source: [
      'let printed = 0',
      `for (let n = 1; n <= ${LINES}; n++) {`,
      `  console.log(\`line \${n} of ${LINES}\`)`,
      '  printed = n',
      '  await new Promise((resolve) => setTimeout(resolve, 75))',
      '}',
    ].join('\n'),
  })
  const run = await room.execute(cell)
  const killed = client.daemon?.pid
  if (killed === undefined) throw new Error('the client knows no daemon')
  let seen = ''
  let restarting: Promise<string> | null = null
  for await (const output of run.outputs()) {
    if (output.output_type !== 'stream' || typeof output.text !== 'string') continue
    process.stdout.write(output.text)
    seen += output.text
    if (restarting === null && seen.includes(`line ${KILL_AT} of`)) {
      process.kill(killed, 'SIGKILL')
      console.log(`--- kill -9 ${killed}: the daemon is gone, the cell goes on ---`)
      restarting = roomd('start')
      restarting.then(
        (said) => console.log(`--- ${said.trim()} ---`),
        () => {
          // Awaited below.
        },
      )
    }
  }
  const { status } = await run.done
  if (status !== 'done') throw new Error(`the cell ended as ${status}`)
  if (restarting === null) throw new Error('the cell was over before the daemon could be killed')
  await restarting
  const successor = client.daemon?.pid ?? 0
  if (successor === killed) throw new Error('the daemon was not killed')
  const { execution } = await client.call('get_execution', { execution_id: run.id })
  const kept = execution.outputs.map((output) =>
    output.output_type === 'stream' && typeof output.text === 'string' ? output.text : '',
  )
  return { killed, successor, kept: kept.join(''), seen }
}

/** Values that the notebook computed, and the counter of the long cell once there is one, as JSON. */
async function variables(room: Room): Promise<Record<string, string>> {
  const run = await room.execute({
    code: [
      'console.log(JSON.stringify({',
      '  total,',
      '  wholeDay,',
      '  worst,',
      "  printed: typeof printed === 'undefined' ? undefined : printed,",
      '}))',
    ].join('\n'),
  })
  const { status, execution } = await run.done
  const [output] = execution.outputs
  if (status !== 'done' || output?.output_type !== 'stream' || typeof output.text !== 'string') {
    throw new Error(`the variables could not be read: the code ended as ${status}`)
  }
  const values = JSON.parse(output.text) as Record<string, unknown>
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)]))
}

function tellLines(kept: string, seen: string): void {
  const expected = Array.from({ length: LINES }, (_, i) => `line ${i + 1} of ${LINES}`)
  const exact = (text: string) => text.trimEnd() === expected.join('\n')
  const found = kept.split('\n').filter((line) => line !== '')
  const once = expected.filter((line) => found.filter((other) => other === line).length === 1)
  if (exact(kept) && exact(seen)) {
    console.log(`output lines: ${once.length} of ${LINES}, each once`)
    return
  }
  console.log(`output lines: ${once.length} of ${LINES} once; ${found.length} lines in all`)
  if (!exact(kept)) failures.push('lines of output were lost, doubled or out of order')
  if (!exact(seen)) failures.push(`this client was given other lines than were printed:\n${seen}`)
}

function show(output: Output): void {
  switch (output.output_type) {
    case 'stream':
      process.stdout.write(typeof output.text === 'string' ? output.text : output.text.tail)
      return
    case 'error':
      console.log(output.traceback.join('\n'))
      return
    case 'display_data':
    case 'execute_result':
      console.log(String(output.data['text/plain'] ?? Object.keys(output.data).join(', ')))
  }
}

function title(text: string): void {
  console.log(`\n== ${text} ==`)
}

async function roomd(...args: string[]): Promise<string> {
  return (await promisify(execFile)(process.execPath, [programFile('roomd'), ...args])).stdout
}

function projectFolder(): string {
  return join(dirname(fileURLToPath(import.meta.url)), '..')
}

async function cleanUp(): Promise<void> {
  try {
    await roomd('stop', '--kernels')
  } catch (error) {
    failures.push(`the daemon could not be stopped: ${error instanceof Error ? error.message : error}`)
  }
  rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
}
