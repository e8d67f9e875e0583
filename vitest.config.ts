import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Bounds for a broken run; a slow and busy machine takes several times what a quiet one does.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // Many tests wait for other processes; one more than two keeps a small machine busy, and no more than that.
    maxWorkers: 3,
    // Tests of one file that run side by side: more would only wait for each other's kernels.
    maxConcurrency: 3,
    reporters: ['./test/reporter.ts'],
  },
})
