/**
 * Output so far of an execution, as events that a mirror applies in order: what its rows hold, then what was handed over and is not
 * committed yet. Events are absolute (a splice names its offset, an output its index), so one that is in both does no harm.
 */
import type { DurableEvent } from '../../protocol/events.ts'
import type { Store } from '../store/store.ts'
import type { Live } from './live.ts'
import { readRows } from './reading.ts'

/** UTF-16 units of text in one event. */
const REPLAY_UNITS = 512 * 1024

export function replayEvents(store: Store, live: Live): DurableEvent[] {
  const cleared = live.pending.findLastIndex((event) => event.type === 'outputs_cleared')
  // What was wiped away since the last commit is not worth telling.
  const pending = live.pending.slice(Math.max(0, cleared))
  const stored = cleared >= 0 ? [] : storedEvents(store, live)
  return [...stored, ...pending, ...live.recorder.toldTail()]
}

function storedEvents(store: Store, live: Live): DurableEvent[] {
  const events: DurableEvent[] = []
  const execution_id = live.id
  for (const { index, stored } of readRows(store, live.id)) {
    if (index >= live.recorder.firstUntold) break
    if (stored.output_type !== 'stream') {
      events.push({ type: 'output', execution_id, index, output: stored })
      continue
    }
    const { output_type, name } = stored
    const inline = typeof stored.text === 'string' && !stored.pieces ? stored.text : ''
    events.push({ type: 'output', execution_id, index, output: { output_type, name, text: inline } })
    if (!stored.pieces) continue
    const pieces = store.all<{ char_offset: number; text: string }>(
      'SELECT char_offset, text FROM output_pieces WHERE execution_id = ? AND output_index = ? ORDER BY char_offset',
      live.id,
      index,
    )
    let from = pieces[0]?.char_offset ?? 0
    let text = ''
    for (const piece of pieces) {
      if (text.length + piece.text.length > REPLAY_UNITS) {
        events.push({ type: 'output_splice', execution_id, index, from, text })
        from += text.length
        text = ''
      }
      text += piece.text
    }
    if (text !== '') events.push({ type: 'output_splice', execution_id, index, from, text })
  }
  return events
}
