/**
 * Ends the kernel when the process that started it is gone, but only if that process asked for it (`JPY_PARENT_PID`, as Jupyter
 * sets it): kernels of roomd outlive their host and must not watch it.
 */
const intervalMs = 1000

export function watchParent(): void {
  const pid = Number(process.env.JPY_PARENT_PID)
  if (!Number.isInteger(pid) || pid <= 1) return
  const parentAtStart = process.ppid
  setInterval(() => {
    if (alive(pid) && process.ppid === parentAtStart) return
    // From a worker there is no other way to end the process, and nobody is left to read what an orderly end would say.
    process.kill(process.pid, 'SIGTERM')
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), intervalMs)
  }, intervalMs).unref()
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
