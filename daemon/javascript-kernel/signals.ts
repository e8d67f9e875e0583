/**
 * Takes SIGINT away from Node's listeners on the main thread and keeps Node's signal watchdog running for the life of the process.
 *
 * Left alone, Node starts the watchdog for each script that `breakOnSigint` watches, removes all SIGINT listeners meanwhile, and
 * afterwards adds them again: each time there are moments in which a signal ends the process, and each time it costs a thread. With
 * the watchdog always on neither happens. Listeners that user code adds are kept, but hear nothing.
 */
type SignalHook = (event: string | symbol, ...rest: unknown[]) => void

/** Must run before anything else, so that a signal while starting is harmless. */
export function takeInterruptSignal(): void {
  const ignore = (): void => {}
  process.on('SIGINT', ignore)
  for (const name of ['newListener', 'removeListener'] as const) {
    for (const hook of process.rawListeners(name) as SignalHook[]) {
      process.removeListener(name, hook)
      const others: SignalHook = (event, ...rest) => {
        if (event !== 'SIGINT') Reflect.apply(hook, process, [event, ...rest])
      }
      process.on(name, others)
    }
  }
  // The listener goes, its libuv handle stays, below the watchdog.
  process.removeListener('SIGINT', ignore)
  startWatchdog()
}

/**
 * What Node's REPL uses for itself; it counts. A Node without it still works, but a second interrupt within the microseconds in
 * which the first is taken can end the process.
 */
function startWatchdog(): void {
  const binding: unknown = Reflect.get(process, 'binding')
  if (typeof binding !== 'function') return
  try {
    const start: unknown = Reflect.get(Reflect.apply(binding, process, ['contextify']), 'startSigintWatchdog')
    if (typeof start === 'function') Reflect.apply(start, undefined, [])
  } catch {
    // This Node does not give it out.
  }
}
