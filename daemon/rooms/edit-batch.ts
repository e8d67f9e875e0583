/**
 * Edits by operation that came together. Texts that one peer sets at once, in different cells, arrive in one turn of the loop; they
 * are made as one Yjs transaction: one update, one journal row and one frame for editors instead of as many. Each has its own
 * `doc_seq` and answer; in the projection's terms those who read `parts` are told of all in one event, others of each on its own, as if
 * it had come alone. Every other edit is a batch of its own.
 *
 * Invariants: edits keep the order in which they came; each is checked against what those before it made, and one that is refused
 * changes nothing and stops no other. Whoever looks at the room or commits something else is behind them: the room calls `flush`
 * first. All of a batch is of one origin, since an update has one.
 */
import type { RoomdError } from '../../protocol/errors.ts'
import type { CellChange } from '../../protocol/events.ts'
import type { CellId } from '../../protocol/ids.ts'
import type { MethodResult, Operation } from '../../protocol/methods.ts'
import type { Mutation } from './mutations.ts'
import type { RoomDocument } from './parts.ts'
import type { WholeChange } from './whole-change.ts'

/**
 * So many are made as one; what comes behind them in the same turn is made while they are committed. So a client that sends its next
 * edits when it is answered never waits for all of its last ones.
 */
const MOST_TOGETHER = 32

export interface WantedEdit {
  /** Label of who makes it. */
  readonly by: string
  readonly operations: readonly Operation[]
  readonly mutation: Mutation | null
  /** Throws what forbids it. `ahead`: by how much what came before it puts the document ahead of `doc_seq`. */
  readonly check: (ahead: number) => void
}

type Answer = MethodResult<'edit'>

interface Waiting extends WantedEdit {
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** What a batch needs of its room, as it is without flushing. */
export interface BatchRoom {
  readonly document: RoomDocument
  readonly docSeq: number
  commit(change: WholeChange): Promise<void>
}

export class EditBatch {
  readonly #room: () => BatchRoom
  #waiting: Waiting[] = []
  /** Cells whose texts they set. */
  readonly #cells = new Set<CellId>()

  constructor(room: () => BatchRoom) {
    this.#room = room
  }

  get empty(): boolean {
    return this.#waiting.length === 0
  }

  /** Takes an edit in; resolves when it is committed and told. */
  take(edit: WantedEdit): Promise<Answer> {
    const joins = setsTexts(edit)
    const first = this.#waiting[0]
    if (first && !(joins && first.by === edit.by && this.#isApart(edit))) this.flush()
    return new Promise((resolve, reject) => {
      if (joins && this.empty) queueMicrotask(() => this.flush())
      const { by, operations, mutation, check } = edit
      this.#waiting.push({ by, operations, mutation, check, resolve, reject })
      for (const operation of edit.operations)
        if (operation.op === 'set_source') this.#cells.add(operation.cell_id)
      if (!joins) this.flush()
      else if (this.#waiting.length >= MOST_TOGETHER) this.flush(true)
    })
  }

  /** Makes and hands over what waits. `early`: more of the same is likely to come in this turn. */
  flush(early = false): void {
    const [first] = this.#waiting
    if (!first) return
    const edits = this.#take()
    const room = this.#room()
    try {
      const { change, outcomes } = room.document.applyEach(edits)
      const alone = edits.length === 1
      let docSeq = room.docSeq
      const done: { edit: Waiting; answer: Answer }[] = []
      const parts: (readonly CellChange[])[] = []
      edits.forEach((edit, index) => {
        const outcome = outcomes[index]
        if (!outcome?.ok) {
          edit.reject(outcome?.error)
          return
        }
        if (alone ? change : outcome.texts.length > 0) {
          docSeq++
          parts.push(outcome.texts)
        }
        done.push({ edit, answer: { doc_seq: docSeq, cell_ids: outcome.cellIds } })
      })
      if (done.length === 0) return
      const results = done.flatMap(({ edit: { mutation }, answer }) =>
        mutation ? [{ mutation, value: answer }] : [],
      )
      const document = change && { change, by: first.by, ...(alone ? {} : { parts }) }
      room.commit({ statements: [], results, early, ...(document ? { document } : {}) }).then(
        () => {
          for (const { edit, answer } of done) edit.resolve(answer)
        },
        (error) => {
          for (const { edit } of done) edit.reject(error)
        },
      )
    } catch (error) {
      for (const edit of edits) edit.reject(error)
    }
  }

  /** The room is rebuilt from what the store has. */
  fail(error: RoomdError): void {
    for (const edit of this.#take()) edit.reject(error)
  }

  #take(): Waiting[] {
    const edits = this.#waiting
    this.#waiting = []
    this.#cells.clear()
    return edits
  }

  #isApart({ operations }: WantedEdit): boolean {
    for (const operation of operations) if (this.#cells.has(operation.cell_id as CellId)) return false
    return true
  }
}

/** It sets texts, each of another cell, and does nothing else: it can be told without asking Yjs. */
function setsTexts({ operations }: WantedEdit): boolean {
  if (operations.length === 1) return operations[0]?.op === 'set_source'
  const cells = new Set<CellId>()
  for (const operation of operations) {
    if (operation.op !== 'set_source' || cells.has(operation.cell_id)) return false
    cells.add(operation.cell_id)
  }
  return true
}
