/**
 * The daemon's log, `<logs>/daemon.log`: JSON lines, written at once, so that the last line before a crash is there. A log that
 * cannot be written (full disk) loses lines and says later how many; it never stops the daemon.
 */
import { closeSync, fstatSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { redactFields, redactLine } from './redact.ts'

/** Bytes after which the file becomes `daemon.log.1`. */
const ROTATE_AT = 8 * 1024 * 1024
/** Old files kept. */
const KEPT = 3

/** Values of `ROOMD_LOG_LEVEL`. */
export const logLevels: readonly string[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

export interface DaemonLog {
  readonly logger: Logger
  close(): void
}

/** Opens the log. The caller holds the daemon's lock: rotation belongs to one process. */
export function openLog(file: string, level: string): DaemonLog {
  const out = new LogFile(file)
  const logger = pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { log: redactFields, level: (label) => ({ level: label }) },
    },
    out,
  )
  return { logger, close: () => out.close() }
}

class LogFile {
  readonly #file: string
  #descriptor: number
  #size: number
  #lost = 0

  constructor(file: string) {
    this.#file = file
    if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) >= ROTATE_AT) this.#shift()
    this.#descriptor = openSync(file, 'a', 0o600)
    this.#size = fstatSync(this.#descriptor).size
  }

  write(line: string): void {
    try {
      if (this.#size >= ROTATE_AT) this.#rotate()
      if (this.#lost > 0) {
        const lost = this.#lost
        this.#append(`${JSON.stringify({ level: 'warn', msg: `${lost} log lines could not be written` })}\n`)
        this.#lost = 0
      }
      this.#append(redactLine(line))
    } catch {
      // Nowhere to tell it but here, later.
      this.#lost++
    }
  }

  close(): void {
    closeSync(this.#descriptor)
  }

  #append(line: string): void {
    this.#size += writeSync(this.#descriptor, line)
  }

  #rotate(): void {
    closeSync(this.#descriptor)
    try {
      this.#shift()
    } finally {
      this.#descriptor = openSync(this.#file, 'a', 0o600)
      this.#size = fstatSync(this.#descriptor).size
    }
  }

  #shift(): void {
    rmSync(`${this.#file}.${KEPT}`, { force: true })
    for (let n = KEPT - 1; n >= 1; n--) {
      if (statSync(`${this.#file}.${n}`, { throwIfNoEntry: false })) {
        renameSync(`${this.#file}.${n}`, `${this.#file}.${n + 1}`)
      }
    }
    renameSync(this.#file, `${this.#file}.1`)
  }
}
