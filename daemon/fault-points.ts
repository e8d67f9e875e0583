/**
 * Places at which a test ends this process as a power cut would. `ROOMD_TEST_FAULT=save:synced` kills it (SIGKILL) when it gets
 * there. Without the variable a fault point costs one comparison.
 */
const wanted = process.env.ROOMD_TEST_FAULT

export function faultPoint(name: string): void {
  if (wanted === undefined || wanted !== name) return
  process.kill(process.pid, 'SIGKILL')
  // A signal to oneself may be taken a moment later; nothing must happen in it.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}
