/**
 * The bytes of one value on their way in. Large pieces are kept as they came and joined once at the end; small ones are copied
 * together, so that a value that trickles in byte by byte costs no more memory than its bytes.
 */

const KEEP_MIN = 4 * 1024
const BLOCK_BYTES = 16 * 1024

export class Assembly {
  #pieces: Uint8Array[] = []
  #block: Uint8Array | null = null
  #filled = 0
  #total = 0

  /** Bytes added so far. */
  get total(): number {
    return this.#total
  }

  /** `ahead`: bytes known to come in this frame, the piece included. */
  add(piece: Uint8Array, ahead: number): void {
    this.#total += piece.length
    if (piece.length >= KEEP_MIN || piece.length === ahead) {
      this.#seal()
      this.#pieces.push(piece)
      return
    }
    let rest = piece
    let coming = ahead
    while (rest.length > 0) {
      if (this.#block === null) this.#block = new Uint8Array(Math.min(BLOCK_BYTES, coming))
      const part = rest.subarray(0, this.#block.length - this.#filled)
      this.#block.set(part, this.#filled)
      this.#filled += part.length
      coming -= part.length
      rest = rest.subarray(part.length)
      if (this.#filled === this.#block.length) this.#seal()
    }
  }

  /** The whole value; a view of a received chunk when it came in one. The assembly is empty afterwards. */
  take(): Uint8Array {
    this.#seal()
    const pieces = this.#pieces
    const [first] = pieces
    if (pieces.length === 1 && first !== undefined) return first
    const whole = new Uint8Array(this.#total)
    let at = 0
    for (const piece of pieces) {
      whole.set(piece, at)
      at += piece.length
    }
    return whole
  }

  #seal(): void {
    if (this.#block !== null && this.#filled > 0) this.#pieces.push(this.#block.subarray(0, this.#filled))
    this.#block = null
    this.#filled = 0
  }
}
