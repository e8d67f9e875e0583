/** The order of cells after both sides inserted, removed and moved some. */

/**
 * `gone`: ids that the merge removes. The side that moved cells gives the order (the room, where both did); what only the other
 * side has follows the cell that it follows there.
 */
export function mergeOrder<Id>(
  base: readonly Id[],
  room: readonly Id[],
  disk: readonly Id[],
  gone: ReadonlySet<Id>,
): Id[] {
  const inRoom = new Set(room)
  const inDisk = new Set(disk)
  const kept = (id: Id): boolean => inRoom.has(id) && inDisk.has(id) && !gone.has(id)
  const inBase = new Set(base)
  const common = (list: readonly Id[]): Id[] => list.filter((id) => inBase.has(id) && kept(id))
  const before = common(base)
  const diskMoved = !equal(before, common(disk))
  const roomMoved = !equal(before, common(room))
  return diskMoved && !roomMoved ? weave(disk, room, gone) : weave(room, disk, gone)
}

/** `skeleton` with what only `other` has put behind its predecessor there. */
function weave<Id>(skeleton: readonly Id[], other: readonly Id[], gone: ReadonlySet<Id>): Id[] {
  const present = new Set(skeleton.filter((id) => !gone.has(id)))
  const behind = new Map<Id | null, Id[]>()
  let anchor: Id | null = null
  for (const id of other) {
    if (present.has(id)) anchor = id
    else if (!gone.has(id)) {
      const list = behind.get(anchor)
      if (list) list.push(id)
      else behind.set(anchor, [id])
    }
  }
  const woven: Id[] = [...(behind.get(null) ?? [])]
  for (const id of present) woven.push(id, ...(behind.get(id) ?? []))
  return woven
}

function equal<Id>(a: readonly Id[], b: readonly Id[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index])
}
