/**
 * Follows a log file by name: what is appended, and through rotation (the name then points to a new file). The old file is read
 * to its end before the new one is begun, so no line is lost between them.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync, statSync, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import { StringDecoder } from 'node:string_decoder'

/** A look without an event, for file systems that do not tell. */
const LOOK_AGAIN = 1000

/**
 * Calls `line` for each line appended to `file` after byte `from` of the file that has the name now. The file may appear later.
 * Resolves when the signal aborts.
 */
export async function followLines(
  file: string,
  from: number,
  line: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const follower = new Follower(file, from, line)
  try {
    follower.look()
    await new Promise<void>((resolve) => {
      const timer = setInterval(() => follower.look(), LOOK_AGAIN)
      const folder = dirname(file)
      const watcher = existsSync(folder)
        ? watch(folder, (_event, name) => {
            if (name === null || name === basename(file)) follower.look()
          })
        : null
      const finish = () => {
        clearInterval(timer)
        watcher?.close()
        resolve()
      }
      watcher?.on('error', () => watcher.close())
      if (signal.aborted) finish()
      else signal.addEventListener('abort', finish, { once: true })
    })
  } finally {
    follower.dispose()
  }
}

class Follower {
  readonly #file: string
  readonly #line: (line: string) => void
  #descriptor: number | null = null
  #inode = 0
  #position: number
  #rest = ''
  #decoder = new StringDecoder('utf8')

  constructor(file: string, from: number, line: (line: string) => void) {
    this.#file = file
    this.#position = from
    this.#line = line
  }

  look(): void {
    if (this.#descriptor === null) this.#open()
    if (this.#descriptor === null) return
    this.#read(this.#descriptor)
    const now = statSync(this.#file, { throwIfNoEntry: false })
    if (now !== undefined && now.ino !== this.#inode) {
      // Rotated between the read above and this look: what was written meanwhile is in the old file.
      this.#read(this.#descriptor)
      this.dispose()
      this.#position = 0
      this.look()
    }
  }

  dispose(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor)
    this.#descriptor = null
  }

  #open(): void {
    try {
      this.#descriptor = openSync(this.#file, 'r')
    } catch (error) {
      // Not there yet, or between two names of a rotation.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
      throw error
    }
    this.#inode = fstatSync(this.#descriptor).ino
  }

  #read(descriptor: number): void {
    const length = fstatSync(descriptor).size
    // Cut in place: begin again.
    if (length < this.#position) this.#position = 0
    const piece = Buffer.alloc(64 * 1024)
    for (;;) {
      const got = readSync(descriptor, piece, 0, piece.length, this.#position)
      if (got === 0) return
      this.#position += got
      const parts = (this.#rest + this.#decoder.write(piece.subarray(0, got))).split('\n')
      this.#rest = parts.pop() ?? ''
      for (const line of parts) this.#line(line)
    }
  }
}
