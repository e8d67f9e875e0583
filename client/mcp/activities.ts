/**
 * What this client is doing in each room, shown to the other peers as presence for as long as a call lasts. Calls in one room share
 * its peer, which has one presence: the call that said something last is shown; when it ends, the one before it. Nothing is shown
 * when no call is under way.
 */
import type { Room } from '../sdk/room.ts'

/** One moment of a call. */
export interface Doing {
  /** For people; `#` stands for the number of the cell: "running cell #". */
  readonly activity: string
  readonly cellId?: string | undefined
  /** In UTF-16 units of the cell's source. */
  readonly offset?: number | undefined
}

/** One call's share; ends with the call. */
export interface Activity {
  show(doing: Doing): void
  end(): void
}

interface Entry {
  doing: Doing | null
}

export class Activities {
  readonly #rooms = new WeakMap<Room, Entry[]>()

  begin(room: Room): Activity {
    const entry: Entry = { doing: null }
    const entries = this.#rooms.get(room) ?? []
    this.#rooms.set(room, entries)
    const forget = (): void => {
      const at = entries.indexOf(entry)
      if (at >= 0) entries.splice(at, 1)
    }
    let ended = false
    return {
      show: (doing) => {
        if (ended) return
        forget()
        entry.doing = doing
        entries.push(entry)
        present(room, doing)
      },
      end: () => {
        ended = true
        const shown = entries.at(-1) === entry
        forget()
        if (shown) present(room, entries.at(-1)?.doing ?? null)
      },
    }
  }
}

function present(room: Room, doing: Doing | null): void {
  if (!doing) {
    room.setPresence(null)
    return
  }
  const { activity, cellId, offset } = doing
  const number = cellId === undefined ? 0 : room.state.cells.findIndex((cell) => cell.cell_id === cellId) + 1
  room.setPresence({
    // A cell that is not here yet, or not any more, has no number.
    activity: number > 0 ? activity.replace('#', String(number)) : activity.replace(' #', ''),
    ...(cellId === undefined
      ? {}
      : { cursor: { cell: cellId, ...(offset === undefined ? {} : { offset }) } }),
  })
}
