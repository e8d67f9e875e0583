/**
 * Files of a tree, read so that one bad file costs that file: bytes that cannot be parsed are quarantined (told, and copied beside the
 * store), and the backup beside them is used when there is one. Nothing in the tree is changed.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { decodeText, isJsonObject, parseLenient, UnreadableFile } from '../lenient-json.ts'
import type { ReadReport } from './entry.ts'

export interface TextFile {
  readonly text: string
  readonly modifiedUs: number
  /** Why the backup stands here. */
  readonly recovered: string | null
}

/** Larger files are no files of the reference. */
const LARGEST = 512 * 1024 * 1024

export class TreeFiles {
  readonly report: ReadReport = { quarantined: [], warnings: [] }
  readonly #quarantine: string | null
  #digest = createHash('sha256')

  /** `quarantine`: folder for copies of what cannot be read; null: only told. */
  constructor(quarantine: string | null) {
    this.#quarantine = quarantine
  }

  /** Digest of all texts read since the last call. */
  takeDigest(): string {
    const digest = this.#digest.digest('hex')
    this.#digest = createHash('sha256')
    return digest
  }

  addToDigest(text: string): void {
    this.#digest.update(text)
  }

  warn(text: string): void {
    this.report.warnings.push(text)
  }

  /** Names in a folder; none where there is none. */
  names(folder: string): string[] {
    try {
      return readdirSync(folder).sort()
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ENOENT' && code !== 'ENOTDIR') this.warn(`${folder} cannot be listed: ${code}`)
      return []
    }
  }

  isFolder(path: string): boolean {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  }

  /** Any text; null: there is none, or it is quarantined. */
  text(file: string): TextFile | null {
    return this.#read(file, () => {})
  }

  /** A text that holds JSON, with `object` an object. A file that does not falls back to its backup. */
  json(file: string, options: { object: boolean }): TextFile | null {
    const check = (text: string): void => {
      const value = parseLenient(text)
      if (options.object && !isJsonObject(value)) throw new UnreadableFile('it holds no JSON object')
    }
    const before = this.report.quarantined.length
    const read = this.#read(file, check)
    if (read || this.report.quarantined.length === before) return read
    const backup = this.#tryBackup(`${file}.bak`, check)
    if (!backup) return null
    const reason = this.report.quarantined.at(-1)?.reason ?? ''
    this.warn(`${file}: its backup was used, because the file cannot be read: ${reason}`)
    return {
      ...backup,
      recovered: `the backup of ${basename(file)} is shown, because the file cannot be read: ${reason}`,
    }
  }

  quarantine(file: string, reason: string): void {
    this.report.quarantined.push({ file, reason })
    if (this.#quarantine === null) return
    try {
      mkdirSync(this.#quarantine, { recursive: true, mode: 0o700 })
      const digest = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16)
      copyFileSync(file, join(this.#quarantine, `${digest}-${basename(file)}`))
    } catch (error) {
      this.warn(`${file} could not be copied to ${this.#quarantine}: ${(error as Error).message}`)
    }
  }

  #read(file: string, check: (text: string) => void): TextFile | null {
    let bytes: Buffer
    let modifiedUs: number
    try {
      const info = statSync(file, { bigint: true, throwIfNoEntry: false })
      if (!info) return null
      if (!info.isFile()) return null
      if (info.size > BigInt(LARGEST)) throw new UnreadableFile(`it has ${info.size} bytes`)
      bytes = readFileSync(file)
      modifiedUs = Number(info.mtimeNs / 1000n)
      const text = decodeText(bytes)
      check(text)
      this.#digest.update(bytes).update(String(modifiedUs))
      return { text, modifiedUs, recovered: null }
    } catch (error) {
      if (error instanceof UnreadableFile) this.quarantine(file, error.message)
      else
        this.quarantine(file, `it cannot be read: ${(error as NodeJS.ErrnoException).code ?? String(error)}`)
      return null
    }
  }

  #tryBackup(file: string, check: (text: string) => void): TextFile | null {
    try {
      const info = statSync(file, { bigint: true, throwIfNoEntry: false })
      if (!info) return null
      const text = decodeText(readFileSync(file))
      check(text)
      this.#digest.update(text)
      return { text, modifiedUs: Number(info.mtimeNs / 1000n), recovered: null }
    } catch {
      // The backup is no better; the file itself is told already.
      return null
    }
  }
}
