import { expect, test } from 'vitest'
import { ExecutionRecord } from '../../client/sdk/execution-record.ts'
import { streamOutputs } from '../../client/sdk/output-stream.ts'
import { execution } from './fixture.ts'

test('text that is read ahead of the events that tell of it is given once', async () => {
  const record = new ExecutionRecord(execution(1, { status: 'running' }))
  // Longer than what the mirror keeps whole, so that the middle has to be read.
  const lines = Array.from({ length: 40_000 }, (_, i) => `line ${i}\n`)
  const whole = lines.join('')
  const half = lines.slice(0, 30_000).join('').length
  record.put(0, { output_type: 'stream', name: 'stdout', text: '' })
  record.splice(0, 0, whole.slice(0, half))
  let reads = 0
  const outputs = streamOutputs(record, async (_index, offset) => {
    reads++
    // The daemon has all of it; the last event is still on its way.
    return whole.slice(offset)
  })
  const given: string[] = []
  for await (const output of outputs) {
    if (output.output_type === 'stream' && typeof output.text === 'string') given.push(output.text)
    if (given.length > 1) continue
    record.splice(0, half, whole.slice(half))
    record.update({ ...record.summary, status: 'done' })
  }
  expect(reads).toBeGreaterThan(0)
  expect(given.join('') === whole).toBe(true)
})
