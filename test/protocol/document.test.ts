/** PROTOCOL.md says what the schemas say. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import * as channels from '../../protocol/channels.ts'
import { CommView } from '../../protocol/comms.ts'
import { wireCodes } from '../../protocol/errors.ts'
import { DurableEvent, TransientEvent } from '../../protocol/events.ts'
import * as frames from '../../protocol/frames.ts'
import { HostEvent, HostHello, HostWelcome, hostMethods } from '../../protocol/kernel-host.ts'
import { methods, Operation } from '../../protocol/methods.ts'
import * as notebook from '../../protocol/notebook.ts'
import { DaemonEvent } from '../../protocol/projects.ts'
import { scopes } from '../../protocol/scopes.ts'
import { PROTOCOL_HIGHEST, PROTOCOL_LOWEST } from '../../protocol/version.ts'
import { preamble } from '../../protocol/wire/preamble.ts'

const text = readFileSync(new URL('../../protocol/PROTOCOL.md', import.meta.url), 'utf8')
const running = text.replace(/\s+/g, ' ')

/** Rows of the table whose first heading is `heading`, cells trimmed. */
function table(heading: string): string[][] {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => line.startsWith(`| ${heading} |`))
  if (start < 0) throw new Error(`PROTOCOL.md has no table that starts with "${heading}"`)
  const rows: string[][] = []
  for (const line of lines.slice(start + 2)) {
    if (!line.startsWith('|')) break
    rows.push(
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    )
  }
  return rows
}

const code = (name: string): string => `\`${name}\``

function fields(schema: z.ZodType, without?: string): string {
  if (!(schema instanceof z.ZodObject)) throw new Error('expected an object schema')
  const names = Object.entries(schema.shape as Record<string, z.ZodType>)
    .filter(([name]) => name !== without)
    .map(([name, member]) => code(member.safeParse(undefined).success ? `${name}?` : name))
  return names.join(' ') || 'none'
}

/** Member lists of the form "- NAME: `a` `b?`". */
function lists(name: string): string[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith(`- ${name}: `))
    .map((line) => line.slice(name.length + 4))
}

const tagOf = (option: z.ZodType, tag: string): string => {
  const literal = (option as z.ZodObject).shape[tag] as z.ZodLiteral
  return code(String(literal.value))
}

describe('PROTOCOL.md', () => {
  it('shows the frame table', () => {
    const rows = Object.entries(frames.frameRules).map(([type, rule]) => [
      `0x${Number(type).toString(16).padStart(2, '0')}`,
      rule.name,
      String(rule.cap),
      rule.lane,
      rule.from,
    ])
    expect(table('type').map((row) => row.slice(0, 5))).toEqual(rows)
    expect(Object.keys(frames.FrameType)).toEqual(rows.map(([, name]) => name))
  })

  it('shows the preamble as it is sent', () => {
    const bytes = Buffer.from(preamble())
    const values = [bytes.subarray(0, 4), bytes.subarray(4, 5), bytes.subarray(5, 6), bytes.subarray(6)]
    const hex = (part: Buffer) =>
      code(
        part
          .toString('hex')
          .toUpperCase()
          .replace(/..(?=.)/g, '$& '),
      )
    expect(table('bytes').map(([, value]) => value)).toEqual([
      hex(values[0] as Buffer),
      String(PROTOCOL_LOWEST),
      String(PROTOCOL_HIGHEST),
      hex(values[3] as Buffer),
    ])
    expect(text).toContain(`# The roomd protocol, version ${PROTOCOL_HIGHEST}`)
  })

  it('names the limits', () => {
    expect(text).toContain(`\`length\` is at most ${frames.MAX_FRAME_PAYLOAD}.`)
    expect(running).toContain(`starts with ${frames.INITIAL_CREDIT} bytes of credit`)
    expect(running).toContain(
      `at most ${frames.MAX_QUEUED_CHANNEL} bytes a channel and ${frames.MAX_QUEUED_CONNECTION} a connection`,
    )
    expect(running).toContain(`after ${frames.PING_IDLE_MS} ms without reading anything`)
    expect(running).toContain(`After ${frames.PING_LOST} unanswered PINGs`)
    expect(running).toContain(`above ${frames.CONTROL_REQUEST_MAX} bytes on the reliable lane`)
    expect(running).toContain(`with up to ${frames.PROJECTION_PAGE} cells`)
    expect(running).toContain(`Text over ${notebook.INLINE_LIMIT} bytes`)
    expect(frames.HANDSHAKE_MS).toBe(5000)
    expect(text).toContain('Five seconds')
    expect([channels.EPHEMERAL_AWARENESS, channels.DOC_SYNC]).toEqual([1, 0])
  })

  it('lists the members of every map frame', () => {
    expect(lists('HELLO')).toEqual([fields(channels.Hello), fields(HostHello)])
    expect(lists('WELCOME')).toEqual([fields(channels.Welcome), fields(HostWelcome)])
    expect(lists('OPEN')).toEqual([fields(channels.Open)])
    expect(lists('OPENED')).toEqual([fields(channels.Opened)])
    expect(lists('CLOSE')).toEqual([fields(channels.Close)])
    expect(lists('ERROR')).toEqual([fields(channels.Fatal)])
    expect(lists('GOAWAY')).toEqual([fields(channels.GoAway)])
    expect(lists('REQUEST')).toEqual([fields(channels.Request)])
    expect(lists('CANCEL')).toEqual([fields(channels.Cancel)])
    expect(lists('RESPONSE')).toEqual([
      '`id` `ok` `value` when `ok` is true, `id` `ok` `error` when it is false',
    ])
    expect(table('picture').map(([name]) => name)).toEqual(
      channels.Opened.shape.picture.options.map((option) => code(option)),
    )
  })

  it('shows the error codes and whether they are retryable', () => {
    expect(table('code').map((row) => row.slice(0, 2))).toEqual(
      Object.entries(wireCodes).map(([name, retryable]) => [code(name), retryable ? 'yes' : 'no']),
    )
    for (const [name, , meaning] of table('code')) expect(meaning, name).not.toBe('')
  })

  it('shows every method with channel, scope, gate, whether it mutates, parameters and result', () => {
    const rows = Object.entries(methods).map(([name, rule]) => {
      if (rule === undefined) throw new Error(name)
      const { channel, scope, gate, mutates } = rule
      return [
        code(name),
        channel,
        scope,
        gate,
        mutates ? 'yes' : 'no',
        fields(rule.params),
        fields(rule.result),
      ]
    })
    expect(table('method')).toEqual(rows)
    const gates = new Set(rows.map((row) => row[3]))
    expect(table('gate').map(([gate]) => gate)).toEqual(expect.arrayContaining([...gates]))
    expect(running).toContain(
      `In rising order: ${code(scopes[0])} reads, ${code(scopes[1])} also edits, ${code(scopes[2])}`,
    )
  })

  it('shows the operations of an edit', () => {
    expect(table('op')).toEqual(
      Operation.options.map((option) => [tagOf(option, 'op'), fields(option, 'op')]),
    )
  })

  it('shows every event', () => {
    const rows = (options: readonly z.ZodType[]) =>
      options.map((option) => [tagOf(option, 'type'), fields(option, 'type')])
    expect(table('durable event')).toEqual(rows(DurableEvent.options))
    expect(table('transient event')).toEqual(rows(TransientEvent.options))
    expect(table('daemon event')).toEqual(rows(DaemonEvent.options))
  })

  it('shows the shapes and their states', () => {
    const shapes = {
      Cell: notebook.Cell,
      Execution: notebook.Execution,
      Kernel: notebook.KernelSummary,
      Peer: notebook.PeerSummary,
      Room: notebook.RoomSummary,
      Comm: CommView,
      LongText: notebook.LongText,
      BlobRef: notebook.BlobRef,
    }
    expect(table('shape')).toEqual(Object.entries(shapes).map(([name, schema]) => [name, fields(schema)]))
    const states = (names: readonly string[]) => names.map(code).join(' ')
    expect(running).toContain(`\`status\` is one of ${states(notebook.executionStatuses)};`)
    expect(running).toContain(`\`state\` is one of ${states(notebook.KernelState.options)}.`)
    expect(running).toContain(`\`kind\` one of \`${notebook.PeerKind.options.join(' ')}\``)
    const { projection, document, runtime } = notebook.Readiness.shape
    expect(table('component')).toEqual([
      ['projection', states(projection.options)],
      ['document', states(document.options)],
      ['runtime', states(runtime.options)],
      ['source', states(notebook.SourceState.options)],
    ])
  })

  it('shows what kernel hosts add', () => {
    expect(table('host method')).toEqual(
      Object.entries(hostMethods).map(([name, { params, result }]) => [
        code(name),
        fields(params),
        fields(result),
      ]),
    )
    expect(table('host event')).toEqual(
      HostEvent.options.map((option) => [tagOf(option, 'kind'), fields(option, 'kind')]),
    )
  })
})
