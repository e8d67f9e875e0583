/**
 * A child for the proxy's tests: speaks JSON-RPC on stdio and does what the arguments of its calls say. It stands for child and
 * daemon together: `<folder>/effects` is the daemon's memory of mutation ids, in which a base is written once however often it comes.
 *
 * Folder (env SCRIPT): `plan.json` is read at start: {title, tools, exit, refuse, silent, asleep, rejoin, before: [lines], noise}. Logs:
 * `starts` (one line a child: pid, ROOMD_REJOIN, ROOMD_CLIENT_INSTANCE), `heard` (every message).
 *
 * Arguments of tool `work`: {die: point, once: name}: ends with SIGKILL at `received | effect | answered`, only if nobody
 * made the file `name` before; {hold: name}: answers when the file exists; {progress: n}; {result: object}; {ask: method}.
 */
import { appendFileSync, closeSync, existsSync, openSync, readFileSync, watch } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const folder = process.env.SCRIPT
const plan = JSON.parse(readFileSync(join(folder, 'plan.json'), 'utf8'))
const log = (file, value) => appendFileSync(join(folder, file), `${JSON.stringify(value)}\n`)
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

log('starts', {
  pid: process.pid,
  rejoin: process.env.ROOMD_REJOIN ?? null,
  instance: process.env.ROOMD_CLIENT_INSTANCE ?? null,
  args: process.argv.slice(2),
  env: Object.keys(process.env),
})
if (plan.exit !== undefined) process.exit(plan.exit)
for (const line of plan.before ?? []) process.stdout.write(`${line}\n`)
if (plan.noise) {
  console.error('Error: some noise on stderr')
  await import('node:http')
}

const pendingAsks = new Map()
const cancelled = new Set()
let asks = 0

/** A file that only one child can make. */
function first(name) {
  if (name === undefined) return true
  try {
    closeSync(openSync(join(folder, name), 'wx'))
    return true
  } catch {
    return false
  }
}

const die = () => process.kill(process.pid, 'SIGKILL')
/** Not before what was written has left. */
const dieLater = () => process.stdout.write('', () => setImmediate(die))

function exists(name) {
  return new Promise((resolve) => {
    const file = join(folder, name)
    const watcher = watch(folder, () => look())
    const look = () => {
      if (!existsSync(file)) return
      watcher.close()
      resolve()
    }
    look()
  })
}

function effect(base, tool) {
  const file = join(folder, 'effects')
  const known = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
  if (known.some((line) => line.startsWith(`${base} `))) return false
  appendFileSync(file, `${base} ${tool}\n`)
  return true
}

async function call(id, params) {
  const args = params.arguments ?? {}
  const meta = params._meta ?? {}
  const at = (point) => args.die === point && first(args.once)
  if (at('received')) return die()
  if (args.progress !== undefined) {
    for (let n = 1; n <= args.progress; n++) {
      send({
        method: 'notifications/progress',
        params: {
          progressToken: meta.progressToken,
          progress: n,
          total: args.progress,
          message: `step ${n}`,
        },
      })
    }
  }
  if (at('progress')) return dieLater()
  const done = params.name === 'work' ? effect(meta['roomd/mutation'], params.name) : null
  if (at('effect')) return die()
  if (args.hold !== undefined) await exists(args.hold)
  if (cancelled.has(id)) return
  if (args.ask !== undefined) {
    const answer = await new Promise((resolve) => {
      const askId = asks++
      pendingAsks.set(askId, resolve)
      send({ id: askId, method: args.ask, params: { _meta: { progressToken: askId } } })
    })
    send({ id, result: { content: [], structuredContent: { answer } } })
    return
  }
  if (args.exit !== undefined && first(args.once)) {
    if (args.handoff)
      send({ method: 'notifications/roomd/child', params: { kind: 'handoff', target: args.handoff } })
    return process.stdout.write('', () => process.exit(args.exit))
  }
  if (args.bytes !== undefined && first(args.once)) {
    const text = 'x'.repeat(args.bytes)
    send(
      args.nameless
        ? { result: { text }, id: 'nobody' }
        : { result: { content: [{ type: 'text', text }] }, id },
    )
    return
  }
  const result = args.result ?? {
    content: [{ type: 'text', text: `done ${params.name}` }],
    structuredContent: {
      tool: params.name,
      done,
      base: meta['roomd/mutation'],
      settled: meta['roomd/settled'],
      arguments: args,
    },
  }
  send({ id, result })
  if (at('answered')) dieLater()
}

createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const message = JSON.parse(line)
    log('heard', message)
    const { id, method, params } = message
    if (method === undefined) {
      pendingAsks.get(id)?.(message.result ?? message.error)
      pendingAsks.delete(id)
      return
    }
    switch (method) {
      case 'initialize':
        if (plan.silent) return
        if (plan.asleep) await exists(plan.asleep)
        if (plan.refuse) return send({ id, error: { code: -32603, message: plan.refuse } })
        return send({
          id,
          result: {
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: 'roomd', title: plan.title ?? 'roomd 1.0.0', version: '1.0.0' },
          },
        })
      case 'notifications/initialized':
        if (plan.rejoin && process.env.ROOMD_REJOIN) {
          send({
            method: 'notifications/roomd/child',
            params: { kind: 'rejoin', target: process.env.ROOMD_REJOIN, ...plan.rejoin },
          })
        }
        return
      case 'tools/list':
        return send({ id, result: { tools: plan.tools } })
      case 'notifications/cancelled':
        return cancelled.add(params.requestId)
      case 'tools/call':
        return call(id, params)
      case 'resources/read':
        return send({ id, result: { contents: [] } })
      default:
        if (id !== undefined) send({ id, result: {} })
    }
  })
  .on('close', async () => {
    if (plan.stubborn) return setInterval(() => {}, 1000)
    process.exit(0)
  })
if (plan.stubborn) process.on('SIGTERM', () => {})
