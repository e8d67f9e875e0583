/** The one line that a finalized session is told by in listings and contexts. */
import { PyFloat } from '../numbers.ts'

export interface LineFacts {
  readonly requests: number
  /** In the order in which they came. */
  readonly skills: readonly string[]
  readonly average: number
  readonly notebooks: number
  readonly cellsRun: number
}

export function summaryLine({ requests, skills, average, notebooks, cellsRun }: LineFacts): string {
  const line = `${requests} requests, ${skills.slice(0, 3).join(', ')}, complexity avg ${averageText(requests, average)}`
  if (notebooks === 0) return line
  return `${line}, ${notebooks} notebook${notebooks === 1 ? '' : 's'}, ${cellsRun} cell${cellsRun === 1 ? '' : 's'} run`
}

/** A float, but the whole number 0 where there was nothing to divide. */
export function averageText(requests: number, average: number): string {
  return requests === 0 ? '0' : new PyFloat(average).toString()
}
