/**
 * The daemon listens before its rooms are ready (kernels are being adopted), so that clients can wait instead of redialling.
 * What needs rooms waits here and goes on in the order in which it came.
 */
import type { Rooms } from '../rooms/seam.ts'

export class RoomsGate {
  #rooms: Rooms | null = null
  readonly #opened: Promise<Rooms>
  #open: (rooms: Rooms) => void = () => undefined

  constructor() {
    this.#opened = new Promise((resolve) => {
      this.#open = resolve
    })
  }

  /** The rooms once they are ready, else null. */
  get rooms(): Rooms | null {
    return this.#rooms
  }

  wait(): Promise<Rooms> {
    return this.#opened
  }

  open(rooms: Rooms): void {
    this.#rooms = rooms
    this.#open(rooms)
  }
}
