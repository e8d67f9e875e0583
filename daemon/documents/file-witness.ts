/**
 * Knows whether a file was touched since it began to look: for who reads a large file early and takes it in late, and need not read it
 * again in between. It listens to the system from before the reading on, and compares what the file system says of the file at the
 * end; where nothing can be listened to it knows nothing. What is on its way from the system when it is asked comes to whoever
 * watches the file from then on.
 */
import { type BigIntStats, constants } from 'node:fs'
import { access, realpath, stat } from 'node:fs/promises'
import type { FileWatch } from './file-watch.ts'

/** Identity of a file on its file system, which renaming keeps. */
export interface FileIdentity {
  readonly dev: number
  readonly ino: number
}

/** A file as the file system has it. */
export interface FileState extends FileIdentity {
  readonly writable: boolean
}

export class FileWitness {
  readonly path: string
  #before: BigIntStats | null = null
  readonly #listening: () => boolean
  readonly #stop: () => void
  #touched = false

  private constructor(watch: FileWatch, path: string) {
    this.path = path
    this.#stop = watch.watch(path, () => {
      this.#touched = true
    })
    this.#listening = () => watch.listensTo(path)
  }

  /** `path`: canonical. What is read behind this is what it speaks of. To be disposed. */
  static async begin(watch: FileWatch, path: string): Promise<FileWitness> {
    const witness = new FileWitness(watch, path)
    witness.#before = await stat(path, { bigint: true }).catch(() => null) // reading it says why
    return witness
  }

  /** The file as it is, if nobody touched it since; null: somebody did, or it cannot be known. */
  async untouched(): Promise<FileState | null> {
    if (this.#touched || !this.#listening()) return null
    const now = await stat(this.path, { bigint: true }).catch(() => null) // it is gone, which is a touch
    const before = this.#before
    const same =
      now !== null &&
      before !== null &&
      (['dev', 'ino', 'size', 'mode', 'mtimeNs', 'ctimeNs'] as const).every((key) => now[key] === before[key])
    // Its path may have become another name of it, which is another thing.
    if (!same || (await realpath(this.path).catch(() => null)) !== this.path) return null
    const writable = (Number(now.mode) & 0o222) !== 0 && (await mayWrite(this.path))
    return this.#touched ? null : { dev: Number(now.dev), ino: Number(now.ino), writable }
  }

  dispose(): void {
    this.#stop()
  }
}

export async function mayWrite(path: string): Promise<boolean> {
  try {
    await access(path, constants.W_OK)
    return true
  } catch {
    // Whatever the reason is: writing would meet it as well.
    return false
  }
}
