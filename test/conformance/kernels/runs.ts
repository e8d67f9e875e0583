/** Running cells and reading what came of them, for suites that go through the SDK. */
import type { Client } from '../../../client/sdk/client.ts'
import type { ExecuteOptions, Room } from '../../../client/sdk/room.ts'
import type { Run } from '../../../client/sdk/run.ts'
import type { Execution, Output } from '../../../protocol/notebook.ts'
import { until, within } from '../../support/until.ts'

/** A new room with that kernel, which starts with the first cell. */
export function openWith(client: Client, kernel: string, workingDir: string): Promise<Room> {
  return client.openRoom({ create: { kernel, working_dir: workingDir } })
}

/** Runs code of no cell to its end. */
export async function run(room: Room, code: string, options: ExecuteOptions = {}): Promise<Execution> {
  return ended(await room.execute({ code }, options))
}

export async function ended(run: Run, timeout = 60_000): Promise<Execution> {
  return (await within(`the end of ${run.id}`, run.done, timeout)).execution
}

/** Resolves when something of it has been printed. */
export function running(run: Run): Promise<true> {
  return until('some output', () => run.execution.outputs.length > 0, { detail: () => brief(run.execution) })
}

/** Stream text, stdout and stderr alike. */
export function text({ outputs }: { readonly outputs: readonly Output[] }): string {
  return outputs
    .map((output) => {
      if (output.output_type !== 'stream') return ''
      return typeof output.text === 'string' ? output.text : `${output.text.head}…${output.text.tail}`
    })
    .join('')
}

/** `text/plain` of the last value shown. */
export function plain({ outputs }: { readonly outputs: readonly Output[] }): string | undefined {
  const shown = outputs
    .filter((o) => o.output_type === 'display_data' || o.output_type === 'execute_result')
    .at(-1)
  return shown && 'data' in shown ? String(shown.data['text/plain']) : undefined
}

/** All lines a run prints, however many, as a follower is told them. */
export async function lines(run: Run): Promise<string[]> {
  const pieces: string[] = []
  for await (const output of run.outputs())
    if (output.output_type === 'stream' && typeof output.text === 'string') pieces.push(output.text)
  return pieces.join('').trimEnd().split('\n')
}

export function brief(execution: { readonly outputs: readonly Output[] }): string {
  return JSON.stringify(execution).slice(0, 2000)
}
