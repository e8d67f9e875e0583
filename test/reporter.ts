/**
 * Vitest's default output, then what was skipped and why in one line, then one plain line with the three counts: the last line
 * of a run, read by CI. A file that could not be loaded and an error outside of every test count as failed, so that the line never
 * looks better than the run was.
 */
import { DefaultReporter, type SerializedError, type TestModule, type TestRunEndReason } from 'vitest/node'

export interface Counts {
  passed: number
  failed: number
  skipped: number
}

export default class RoomdReporter extends DefaultReporter {
  override onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly SerializedError[],
    reason: TestRunEndReason,
  ): void {
    super.onTestRunEnd(modules, unhandledErrors, reason)
    const counts: Counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 }
    const reasons = new Map<string, number>()
    for (const module of modules) {
      if (module.errors().length > 0) counts.failed++
      for (const test of module.children.allTests()) {
        const result = test.result()
        switch (result.state) {
          case 'passed':
            counts.passed++
            break
          case 'failed':
            counts.failed++
            break
          case 'skipped': {
            counts.skipped++
            const why = result.note ?? module.relativeModuleId
            reasons.set(why, (reasons.get(why) ?? 0) + 1)
            break
          }
          case 'pending':
            // The run was ended before this test had.
            counts.failed++
            break
        }
      }
      for (const suite of module.children.allSuites()) counts.failed += suite.errors().length > 0 ? 1 : 0
    }
    process.stdout.write(`${closingLines(counts, reasons)}\n`)
  }
}

/** The closing lines of a run; the first only where something was skipped. */
export function closingLines(counts: Counts, reasons: ReadonlyMap<string, number>): string {
  const named = [...reasons].map(([why, count]) => (count === 1 ? why : `${why} (${count} tests)`))
  const skipped = named.length === 0 ? '' : `not run here: ${named.join('; ')}\n`
  return `${skipped}${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`
}
