import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
    // Tests of one file that run side by side: more would only wait for each other's kernels.
    maxConcurrency: 3,
    reporters: ['./test/reporter.ts'],
  },
})
