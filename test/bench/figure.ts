/** One measured figure against its reference of the same run, and how figures are printed. */

export type Target = { readonly max: number } | { readonly min: number }

export interface Figure {
  /** Like `exec/ipykernel`. */
  readonly name: string
  readonly value: number
  readonly unit: string
  readonly reference: { readonly name: string; readonly value: number } | null
  /** value ÷ reference; null without one. */
  readonly ratio: number | null
  /** Of the ratio where there is a reference, else of the value; null: told for its own sake. */
  readonly target: Target | null
  readonly ok: boolean | null
}

export function figure(
  name: string,
  value: number,
  unit: string,
  reference: Figure['reference'],
  target: Target | null,
): Figure {
  const ratio = reference ? value / reference.value : null
  const judged = ratio ?? value
  const ok = target ? ('max' in target ? judged <= target.max : judged >= target.min) : null
  return { name, value, unit, reference, ratio, target, ok }
}

/** The value below which `share` (0…1) of the samples lie. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = Math.min(sorted.length - 1, Math.floor(share * sorted.length))
  return sorted[at] ?? Number.NaN
}

export function line(f: Figure): string {
  const value = `${digits(f.value)} ${f.unit}`
  const reference = f.reference ? `${f.reference.name} ${digits(f.reference.value)} ${f.unit}` : ''
  const ratio = f.ratio === null ? '' : `${f.ratio.toFixed(2)}x`
  const target = f.target
    ? 'max' in f.target
      ? `at most ${f.target.max}${f.ratio === null ? ` ${f.unit}` : 'x'}`
      : `at least ${f.target.min}${f.ratio === null ? ` ${f.unit}` : 'x'}`
    : ''
  const verdict = f.ok === null ? '' : f.ok ? 'ok' : 'MISSED'
  return [
    f.name.padEnd(28),
    value.padStart(12),
    ratio.padStart(9),
    reference.padEnd(30),
    target.padEnd(18),
    verdict,
  ]
    .join('  ')
    .trimEnd()
}

function digits(value: number): string {
  if (value >= 1000) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(3)
}
