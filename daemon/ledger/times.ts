/**
 * Times as the reference writes and reads them. Instants are UTC microseconds (integers, exact until the year 2255); texts are ISO
 * in the host's time zone without an offset. Reading follows Python's `fromisoformat`.
 */

/** Local time with six digits of microseconds; they are left out when they are 0, as Python does. */
export function isoText(us: number): string {
  const seconds = isoSeconds(us)
  const micro = ((us % 1_000_000) + 1_000_000) % 1_000_000
  return micro === 0 ? seconds : `${seconds}.${String(micro).padStart(6, '0')}`
}

/** To the second. */
export function isoSeconds(us: number): string {
  const date = new Date(Math.floor(us / 1000))
  return `${pad(date.getFullYear(), 4)}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}T${clockOf(date, ':')}`
}

/** `20260414-093015`, for ids. */
export function stamp(us: number): string {
  const date = new Date(Math.floor(us / 1000))
  return `${pad(date.getFullYear(), 4)}${pad(date.getMonth() + 1)}${pad(date.getDate())}-${clockOf(date, '')}`
}

function clockOf(date: Date, between: string): string {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => pad(part)).join(between)
}

function pad(value: number, digits = 2): string {
  return String(value).padStart(digits, '0')
}

export interface ParsedTime {
  readonly us: number
  /** It said an offset itself; else the host's zone was taken. */
  readonly aware: boolean
  readonly dateOnly: boolean
}

const date = String.raw`(\d{4})(?:-(\d{2})-(\d{2})|(\d{2})(\d{2})|-?W(\d{2})(?:-?(\d))?)`
const clock = String.raw`(\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d+))?)?)?`
const offset = String.raw`(Z|[+-]\d{2}(?::?\d{2}(?::?\d{2}(?:\.\d+)?)?)?)?`
const iso = new RegExp(`^${date}(?:.${clock}${offset})?$`)

/** null: not a time that `fromisoformat` reads. */
export function parseIso(text: string): ParsedTime | null {
  const found = iso.exec(text)
  if (!found) return null
  const [, year = '', m1, d1, m2, d2, week, weekday, hour, minute, second, fraction, zone] = found
  const y = Number(year)
  if (y < 1) return null
  const day =
    week === undefined
      ? civil(y, Number(m1 ?? m2), Number(d1 ?? d2))
      : weekDate(y, Number(week), Number(weekday ?? 1))
  if (!day) return null
  const clockParts = [hour, minute, second].map((part) => Number(part ?? 0)) as [number, number, number]
  if (clockParts[0] > 23 || clockParts[1] > 59 || clockParts[2] > 59) return null
  const micro = Number((fraction ?? '').slice(0, 6).padEnd(6, '0'))
  const dateOnly = hour === undefined
  if (zone === undefined) {
    const local = new Date(0)
    local.setFullYear(day[0], day[1] - 1, day[2])
    local.setHours(...clockParts, 0)
    return { us: local.getTime() * 1000 + micro, aware: false, dateOnly }
  }
  const utc = new Date(0)
  utc.setUTCFullYear(day[0], day[1] - 1, day[2])
  utc.setUTCHours(...clockParts, 0)
  return { us: (utc.getTime() - offsetMs(zone)) * 1000 + micro, aware: true, dateOnly }
}

type Day = readonly [year: number, month: number, day: number]

function civil(year: number, month: number, day: number): Day | null {
  const made = new Date(0)
  made.setUTCFullYear(year, month - 1, day)
  return month >= 1 && made.getUTCMonth() === month - 1 && made.getUTCDate() === day
    ? [year, month, day]
    : null
}

/** ISO 8601 week date: week 1 has the year's first Thursday. */
function weekDate(year: number, week: number, weekday: number): Day | null {
  if (week < 1 || week > 53 || weekday < 1 || weekday > 7) return null
  const fourth = new Date(0)
  fourth.setUTCFullYear(year, 0, 4)
  const monday = fourth.getTime() - ((fourth.getUTCDay() + 6) % 7) * 86_400_000
  const day = new Date(monday + ((week - 1) * 7 + weekday - 1) * 86_400_000)
  return [day.getUTCFullYear(), day.getUTCMonth() + 1, day.getUTCDate()]
}

function offsetMs(zone: string): number {
  if (zone === 'Z') return 0
  const digits = zone.slice(1).replace(/[^\d]/g, '').padEnd(6, '0')
  const seconds =
    Number(digits.slice(0, 2)) * 3600 + Number(digits.slice(2, 4)) * 60 + Number(digits.slice(4, 6))
  return (zone.startsWith('-') ? -seconds : seconds) * 1000
}

/** `49h 2m 3s`, `2m 3s`, `3s`. Whole seconds, not negative. */
export function durationText(seconds: number): string {
  const h = Math.floor(seconds / 3600)
  const m = Math.floor((seconds % 3600) / 60)
  const s = seconds % 60
  if (h > 0) return `${h}h ${m}m ${s}s`
  return m > 0 ? `${m}m ${s}s` : `${s}s`
}
