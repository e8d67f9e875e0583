// An editor in a process of its own: y-websocket's provider as it is published, on a real WebSocket. Inserts `<LABEL:n>` into the
// first cell, each at an edge between two such marks, so that every one of them stays whole. Speaks JSON lines: says `ready`, the
// number of edits now and then, `done`; on the next line from its parent it says the text it has, until its stdin ends.
import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'
import { WebsocketProvider } from 'y-websocket'
import * as Y from 'yjs'

const { URL_YJS, NOTEBOOK, TOKEN, LABEL, EDITS } = process.env
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

class Authorized extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols ?? [], { headers: { authorization: `Bearer ${TOKEN}` } })
  }
}

const doc = new Y.Doc()
const provider = new WebsocketProvider(URL_YJS, NOTEBOOK, doc, {
  WebSocketPolyfill: Authorized,
  params: { label: LABEL },
  maxBackoffTime: 200,
})
await new Promise((resolve) => provider.on('sync', resolve))
const text = doc.getArray('cells').get(0).get('source')
say('ready')
await lines.next()
for (let n = 1; n <= Number(EDITS); n++) {
  const edges = [0, ...[...text.toString().matchAll(/>/g)].map((found) => found.index + 1)]
  text.insert(edges[(n * 7919) % edges.length], `<${LABEL}:${n}>`)
  provider.awareness.setLocalStateField('cursor', { cell: 0, edit: n })
  if (n % 10 === 0) say(n)
  await pause(3)
}
say('done')
for (let next = await lines.next(); !next.done; next = await lines.next()) {
  say({ text: text.toString(), synced: provider.synced, unsettled: doc.store.pendingStructs !== null })
}
process.exit(0)
