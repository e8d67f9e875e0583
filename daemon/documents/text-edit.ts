/**
 * Edits of a cell's text by operation, done on the items of the Y.Text themselves.
 *
 * Y.Text's own ways walk every deleted item around the place of an edit, and a cell that an agent has set a thousand times has a
 * thousand of them. This one begins where the last edit of the text ended, and puts new text behind the text that it deletes: what is
 * deleted next then lies beside it under following clocks, and Yjs makes one item of both.
 *
 * Invariants: sources are plain text (`checkCell`), so every item is a text, deleted, or of no length. Y.Text's search markers know nothing of
 * these edits and are dropped. Places are told by the id of a character, since Yjs joins items behind every transaction.
 */
import * as Y from 'yjs'
import type { TextDelta } from '../../protocol/events.ts'

/** Where an edit ended: a character that the text has or had, and how many characters stand before it. */
interface Place {
  readonly id: Y.ID
  readonly index: number
}

/** Places of the last edit of each text. */
export class TextPlaces {
  readonly #places = new WeakMap<Y.Text, Place>()

  /** Does what `delta` says, which must fit the text. */
  edit(transaction: Y.Transaction, text: Y.Text, delta: TextDelta): void {
    const cursor = new Cursor(transaction, text, this.#places.get(text))
    let at = 0
    let insert = ''
    // An insertion waits for the deletion behind it, so that it comes to stand after what is deleted.
    const put = (): void => {
      if (insert !== '') cursor.insert(insert)
      at += insert.length
      insert = ''
    }
    for (const step of delta) {
      if ('retain' in step) {
        put()
        at += step.retain
        continue
      }
      cursor.moveTo(at)
      if ('delete' in step) cursor.delete(step.delete)
      else insert += step.insert
    }
    put()
    const place = cursor.place
    if (place) this.#places.set(text, place)
    text._searchMarker?.splice(0)
  }

  /** Somebody else has changed the text. */
  forget(text: Y.Text): void {
    this.#places.delete(text)
  }
}

/** A gap between two items of a text: behind `#left`, before `#right`. */
class Cursor {
  readonly #transaction: Y.Transaction
  readonly #text: Y.Text
  #left: Y.Item | null = null
  #right: Y.Item | null
  /** Characters before it. */
  #index = 0

  constructor(transaction: Y.Transaction, text: Y.Text, place: Place | undefined) {
    this.#transaction = transaction
    this.#text = text
    this.#right = text._start
    if (!place) return
    const item = Y.getItem(transaction.doc.store, place.id)
    this.#right = item
    this.#left = item.left
    this.#index = lengthOf(item) === 0 ? place.index : place.index - (place.id.clock - item.id.clock)
  }

  get place(): Place | null {
    const item = this.#left
    if (item === null) return null
    return { id: item.lastId, index: lengthOf(item) === 0 ? this.#index : this.#index - 1 }
  }

  /** To where `index` characters stand before it; as far left among deleted items there as it comes from the left. */
  moveTo(index: number): void {
    while (this.#index > index) this.#back()
    while (this.#index < index && this.#right !== null) {
      const length = lengthOf(this.#right)
      if (this.#index + length > index) this.#split(index - this.#index)
      else this.#forward(length)
    }
  }

  delete(count: number): void {
    let rest = count
    while (rest > 0 && this.#right !== null) {
      const item = this.#right
      if (lengthOf(item) > 0) {
        if (item.length > rest) {
          const { client, clock } = item.id
          Y.getItemCleanStart(this.#transaction, Y.createID(client, clock + rest))
        }
        rest -= item.length
        item.delete(this.#transaction)
      }
      this.#left = item
      this.#right = item.right
    }
  }

  insert(text: string): void {
    const { doc } = this.#transaction
    const left = this.#left
    const right = this.#right
    const id = Y.createID(doc.clientID, Y.getState(doc.store, doc.clientID))
    const item = new Y.Item(
      id,
      left,
      left?.lastId ?? null,
      right,
      right?.id ?? null,
      this.#text,
      null,
      new Y.ContentString(text),
    )
    item.integrate(this.#transaction, 0)
    this.#left = item
    this.#right = item.right
    this.#index += text.length
  }

  #forward(length: number): void {
    this.#index += length
    this.#left = this.#right
    this.#right = this.#right?.right ?? null
  }

  #back(): void {
    const item = this.#left
    this.#index -= item === null ? this.#index : lengthOf(item)
    this.#right = item
    this.#left = item?.left ?? null
  }

  #split(length: number): void {
    const item = this.#right
    if (item === null) return
    const { client, clock } = item.id
    this.#right = Y.getItemCleanStart(this.#transaction, Y.createID(client, clock + length))
    this.#left = item
    this.#index += length
  }
}

/** Characters of an item that are still there: none of deleted ones, and of marks that formats begin or end with. */
function lengthOf(item: Y.Item): number {
  return item.deleted || !item.countable ? 0 : item.length
}
